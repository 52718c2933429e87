/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GB/s of the reduce kernels on vectors that lie in L1, f32 sums beside a loop written by hand
 * with intrinsics for the same instruction set (the ratio should be 0.9 or more), and the copy
 * beside memcpy.
 *
 * Figures count the bytes read and written (three vectors a call) and are the best of several
 * rounds, taken in turns, so that a change of the clock meets both sides. Every instruction set
 * that the CPU has is shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "reduce/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { VECTOR_BYTES = 8192, CALLS = 4096, ROUNDS = 20 };

static _Alignas(64) unsigned char dst[VECTOR_BYTES + 64], a[VECTOR_BYTES + 64],
    b[VECTOR_BYTES + 64];

#if defined(__x86_64__)

/* The hand-written loops: four registers a turn, VECTOR_BYTES is a multiple of them. */
#define HAND(isa, features, type, lanes, load, add, store)                                         \
    __attribute__((target(features), noinline)) static void hand_##isa(                            \
        void *vd, const void *vx, const void *vy, size_t count)                                    \
    {                                                                                              \
        float *d = vd;                                                                             \
        const float *x = vx, *y = vy;                                                              \
                                                                                                   \
        for (size_t i = 0; i < count; i += 4 * lanes) {                                            \
            type s0 = add(load(x + i), load(y + i));                                               \
            type s1 = add(load(x + i + lanes), load(y + i + lanes));                               \
            type s2 = add(load(x + i + 2 * lanes), load(y + i + 2 * lanes));                       \
            type s3 = add(load(x + i + 3 * lanes), load(y + i + 3 * lanes));                       \
                                                                                                   \
            store(d + i, s0);                                                                      \
            store(d + i + lanes, s1);                                                              \
            store(d + i + 2 * lanes, s2);                                                          \
            store(d + i + 3 * lanes, s3);                                                          \
        }                                                                                          \
    }
HAND(generic, "sse2", __m128, 4, _mm_loadu_ps, _mm_add_ps, _mm_storeu_ps)
HAND(avx2, "avx2", __m256, 8, _mm256_loadu_ps, _mm256_add_ps, _mm256_storeu_ps)
HAND(avx512, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_add_ps, _mm512_storeu_ps)

static reduce_fn hand_of(const char *isa)
{
    if (strcmp(isa, "avx512") == 0)
        return hand_avx512;
    return strcmp(isa, "avx2") == 0 ? hand_avx2 : hand_generic;
}

#else

static reduce_fn hand_of(const char *isa)
{
    (void)isa;
    return NULL;
}

#endif

static double seconds_of(reduce_fn run, size_t offset, size_t count)
{
    const int64_t start = clock_now_ns();

    for (int i = 0; i < CALLS; i++) {
        run(dst + offset, a + offset, b + offset, count);
        __asm__ volatile("" ::: "memory");
    }
    return (double)(clock_now_ns() - start) * 1e-9;
}

/* GB/s of one or two functions, in turns; `second` may be NULL. */
static void measure(reduce_fn first, reduce_fn second, size_t offset, size_t size, double ret[2])
{
    const reduce_fn side[2] = {first, second};

    ret[0] = ret[1] = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) {
            if (!side[i])
                continue;

            const double rate = 3.0 * VECTOR_BYTES * CALLS /
                                seconds_of(side[i], offset, VECTOR_BYTES / size) * 1e-9;

            ret[i] = rate > ret[i] ? rate : ret[i];
        }
}

static void show_table(const struct reduce_kernels *table)
{
    static const struct {
        tutti_dtype dtype;
        enum reduce_dtype row;
    } dtypes[] = {
#define ENTRY(NAME, name, code, bits) {TUTTI_##NAME, REDUCE_##NAME},
        TUTTI_DTYPE_LIST(ENTRY)
#undef ENTRY
    };
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN, TUTTI_MAX};

    printf("%-8s", table->isa);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        printf(" %9s", tutti_reduce_op_name(ops[i]));
    printf("   GB/s in L1\n");
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        printf("%8s", tutti_dtype_name(dtypes[d].dtype));
        for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
            const reduce_fn pair = table->pair[dtypes[d].row][ops[i]];
            double rate[2] = {0};

            if (pair)
                measure(pair, NULL, 0, tutti_dtype_size(dtypes[d].dtype), rate);
            printf(" %9.1f", rate[0]);
        }
        printf("\n");
    }
}

static void show_ratio(const struct reduce_kernels *table, size_t offset)
{
    const reduce_fn hand = hand_of(table->isa);
    double rate[2];

    if (!hand)
        return;
    measure(table->pair[REDUCE_F32][TUTTI_SUM], hand, offset, sizeof(float), rate);
    printf("%-8s f32 sum, %zu bytes off alignment: %.1f GB/s, by hand %.1f, ratio %.2f\n",
           table->isa, offset, rate[0], rate[1], rate[0] / rate[1]);
}

static void copy_once(void *to, const void *from, const void *unused, size_t bytes)
{
    (void)unused;
    reduce_copy(to, from, bytes);
}

static void memcpy_once(void *to, const void *from, const void *unused, size_t bytes)
{
    (void)unused;
    memcpy(to, from, bytes);
}

/* A copy reads one vector and writes one: two thirds of what measure() counts. */
static void show_copy(size_t offset)
{
    double rate[2];

    measure(copy_once, memcpy_once, offset, 1, rate);
    printf("copy of %d bytes, %zu bytes off alignment: %.1f GB/s, memcpy %.1f, ratio %.2f\n",
           VECTOR_BYTES, offset, rate[0] * 2 / 3, rate[1] * 2 / 3, rate[0] / rate[1]);
}

int main(void)
{
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (size_t i = 0; i < sizeof a; i++)
        a[i] = b[i] = (unsigned char)(0x3c + i % 3); /* an ordinary number in every float type */
    for (int i = 0; i < n; i++)
        show_table(tables[i]);
    for (int i = 0; i < n; i++) {
        show_ratio(tables[i], 0);
        show_ratio(tables[i], 20);
    }
    show_copy(0);
    show_copy(20);
    return EXIT_SUCCESS;
}
