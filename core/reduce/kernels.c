/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of one instruction set; kernels.cmake compiles this file for each, with KERNELS_ISA
 * naming it. It is plain loops for the compiler to vectorise: 32-bit and wider types and u8 come
 * out as one would write them by hand. Two types need help:
 *
 *   f16   The conversions of F16C, a register at a time; compilers do not find them. Where there is
 *         no F16C, conversions in integer arithmetic that give the same bits.
 *   bf16  Two elements in one 32-bit lane: the upper is a float already once the lower is masked
 *         off, the lower one shift away. Nothing is packed or unpacked, which costs most of the
 *         time otherwise.
 *
 * Elements have alignment 1 and may alias anything: callers' pointers come from anywhere. Loops
 * are marked independent: dst is exactly a source or apart from it.
 */
#include "reduce/kernels.h"

#include <stdbool.h>
#include <string.h>

#include "reduce/kernels_half.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef float ANYWHERE any_f32;
typedef double ANYWHERE any_f64;
typedef int32_t ANYWHERE any_i32;
typedef int64_t ANYWHERE any_i64;
typedef uint32_t ANYWHERE any_u32;
typedef uint64_t ANYWHERE any_u64;
typedef uint8_t any_u8;

/* Elements of a partial result that stays in L1 while many vectors are folded into it. */
enum { FOLD_BYTES = 4096, FOLD_HALVES = FOLD_BYTES / sizeof(float) };

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* A NaN in b fails the comparison and so passes; one in a needs a look of its own. */
#define MIN_OR_NAN(a, b) first_nan(a, MIN(a, b))
#define MAX_OR_NAN(a, b) first_nan(a, MAX(a, b))
#define first_nan(a, otherwise)                                                                    \
    _Generic((a), float : first_nan_f32, double : first_nan_f64)(a, otherwise)

static inline float first_nan_f32(float a, float otherwise)
{
    return a != a ? a : otherwise;
}

static inline double first_nan_f64(double a, double otherwise)
{
    return a != a ? a : otherwise;
}

static void copy(void *dst, const void *src, size_t bytes);

/* dst = (a op b) op c: a third less traffic to the partial result than two calls for pairs. */
typedef void (*triple_fn)(void *dst, const void *a, const void *b, const void *c, size_t count);

/*
 * The partial result is kept apart until the last vector comes, since dst may be one of those that
 * are still to be read.
 */
static void fold(void *dst, const void *const *vectors, int n, size_t bytes, size_t size,
                 reduce_fn pair, triple_fn triple)
{
    _Alignas(64) unsigned char partial[FOLD_BYTES];
    const size_t block = n <= 3 ? bytes : FOLD_BYTES;

    if (n == 1) {
        copy(dst, vectors[0], bytes);
        return;
    }
    for (size_t at = 0, part; at < bytes; at += part) {
        const char *left = (const char *)vectors[0] + at;

        part = bytes - at < block ? bytes - at : block;
        for (int done = 1; done < n; left = (const char *)partial) {
            const bool two = n - done >= 2;
            const char *b = (const char *)vectors[done] + at;
            void *to = n - done <= 2 ? (char *)dst + at : (char *)partial;

            if (two)
                triple(to, left, b, (const char *)vectors[done + 1] + at, part / size);
            else
                pair(to, left, b, part / size);
            done += two ? 2 : 1;
        }
    }
}

#define KERNELS(type, name, OP)                                                                    \
    static void name(void *dst, const void *va, const void *vb, size_t count)                      \
    {                                                                                              \
        any_##type *d = dst;                                                                       \
        const any_##type *x = va, *y = vb;                                                         \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const any_##type a = x[i], b = y[i];                                                   \
                                                                                                   \
            d[i] = (any_##type)OP(a, b);                                                           \
        }                                                                                          \
    }                                                                                              \
    static void name##_3(void *dst, const void *va, const void *vb, const void *vc, size_t count)  \
    {                                                                                              \
        any_##type *d = dst;                                                                       \
        const any_##type *x = va, *y = vb, *z = vc;                                                \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const any_##type a = x[i], b = y[i], c = z[i], ab = (any_##type)OP(a, b);              \
                                                                                                   \
            d[i] = (any_##type)OP(ab, c);                                                          \
        }                                                                                          \
    }                                                                                              \
    static void name##_many(void *dst, const void *const *vectors, int n, size_t count)            \
    {                                                                                              \
        fold(dst, vectors, n, count * sizeof(any_##type), sizeof(any_##type), name, name##_3);     \
    }

/* Sums and products of integers wrap, so they are made without sign. */
KERNELS(u8, u8_sum, SUM)
KERNELS(u8, u8_product, PRODUCT)
KERNELS(u8, u8_min, MIN)
KERNELS(u8, u8_max, MAX)
KERNELS(u32, i32_sum, SUM)
KERNELS(u32, i32_product, PRODUCT)
KERNELS(i32, i32_min, MIN)
KERNELS(i32, i32_max, MAX)
KERNELS(u64, i64_sum, SUM)
KERNELS(u64, i64_product, PRODUCT)
KERNELS(i64, i64_min, MIN)
KERNELS(i64, i64_max, MAX)
KERNELS(f32, f32_sum, SUM)
KERNELS(f32, f32_product, PRODUCT)
KERNELS(f32, f32_min, MIN_OR_NAN)
KERNELS(f32, f32_max, MAX_OR_NAN)
KERNELS(f64, f64_sum, SUM)
KERNELS(f64, f64_product, PRODUCT)
KERNELS(f64, f64_min, MIN_OR_NAN)
KERNELS(f64, f64_max, MAX_OR_NAN)

/*
 * Division by the number of members, in a type that holds both exactly: the quotient of two
 * integers below 2^32 is farther from the next integer than a double's rounding reaches.
 */
#define AVERAGE(type, wide)                                                                        \
    static void type##_average(void *dst, size_t count, uint32_t members)                          \
    {                                                                                              \
        any_##type *d = dst;                                                                       \
        const wide by = (wide)members;                                                             \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            d[i] = (any_##type)((wide)d[i] / by);                                                  \
    }
AVERAGE(u8, double)
AVERAGE(i32, double)
AVERAGE(i64, int64_t)
AVERAGE(f32, float)
AVERAGE(f64, double)

/* What a half type needs to fold many vectors: into floats, one more vector, and back. */
typedef void (*widen_fn)(float *partial, const void *src, size_t count);
typedef void (*add_fn)(float *partial, const void *src, size_t count);
typedef void (*narrow_fn)(void *dst, const float *partial, size_t count);

static void fold_halves(void *dst, const void *const *vectors, int n, size_t count, widen_fn widen,
                        add_fn add, narrow_fn narrow)
{
    _Alignas(64) float partial[FOLD_HALVES];

    for (size_t at = 0, part; at < count; at += part) {
        part = count - at < FOLD_HALVES ? count - at : FOLD_HALVES;
        widen(partial, (const any_half *)vectors[0] + at, part);
        for (int i = 1; i < n; i++)
            add(partial, (const any_half *)vectors[i] + at, part);
        narrow((any_half *)dst + at, partial, part);
    }
}

#define HALF_MANY(type, name)                                                                      \
    static void name##_many(void *dst, const void *const *vectors, int n, size_t count)            \
    {                                                                                              \
        if (n == 1)                                                                                \
            copy(dst, vectors[0], count * sizeof(any_half));                                       \
        else if (n == 2)                                                                           \
            name(dst, vectors[0], vectors[1], count);                                              \
        else                                                                                       \
            fold_halves(dst, vectors, n, count, type##_widen_all, name##_add, type##_narrow_all);  \
    }

static void f16_widen_all(float *partial, const void *src, size_t count)
{
    const any_half *x = src;
    const size_t whole = count - count % F16_LANES;
    size_t i = 0;

    INDEPENDENT
    for (; i < whole; i += F16_LANES) {
        const f16_lanes v = f16_load(x + i);

        memcpy(partial + i, &v, sizeof v);
    }
    for (; i < count; i++)
        partial[i] = f16_widen(x[i]);
}

static void f16_narrow_all(void *dst, const float *partial, size_t count)
{
    any_half *d = dst;
    const size_t whole = count - count % F16_LANES;
    size_t i = 0;

    INDEPENDENT
    for (; i < whole; i += F16_LANES) {
        f16_lanes v;

        memcpy(&v, partial + i, sizeof v);
        f16_store(d + i, v);
    }
    for (; i < count; i++)
        d[i] = f16_narrow(partial[i]);
}

#define F16_KERNELS(name, OP)                                                                      \
    static void name(void *dst, const void *va, const void *vb, size_t count)                      \
    {                                                                                              \
        any_half *d = dst;                                                                         \
        const any_half *x = va, *y = vb;                                                           \
        const size_t whole = count - count % F16_LANES;                                            \
        size_t i = 0;                                                                              \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (; i < whole; i += F16_LANES) {                                                        \
            const f16_lanes a = f16_load(x + i), b = f16_load(y + i);                              \
                                                                                                   \
            f16_store(d + i, LANES_##OP(a, b));                                                    \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            const float a = f16_widen(x[i]), b = f16_widen(y[i]);                                  \
                                                                                                   \
            d[i] = f16_narrow(OP(a, b));                                                           \
        }                                                                                          \
    }                                                                                              \
    static void name##_add(float *partial, const void *vb, size_t count)                           \
    {                                                                                              \
        const any_half *y = vb;                                                                    \
        const size_t whole = count - count % F16_LANES;                                            \
        size_t i = 0;                                                                              \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (; i < whole; i += F16_LANES) {                                                        \
            f16_lanes a, b = f16_load(y + i);                                                      \
                                                                                                   \
            memcpy(&a, partial + i, sizeof a);                                                     \
            a = LANES_##OP(a, b);                                                                  \
            memcpy(partial + i, &a, sizeof a);                                                     \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            const float a = partial[i], b = f16_widen(y[i]);                                       \
                                                                                                   \
            partial[i] = OP(a, b);                                                                 \
        }                                                                                          \
    }                                                                                              \
    HALF_MANY(f16, name)

F16_KERNELS(f16_sum, SUM)
F16_KERNELS(f16_product, PRODUCT)
F16_KERNELS(f16_min, MIN_OR_NAN)
F16_KERNELS(f16_max, MAX_OR_NAN)

static void f16_average(void *dst, size_t count, uint32_t members)
{
    any_half *d = dst;
    const float by = (float)members;
    const size_t whole = count - count % F16_LANES;
    size_t i = 0;

    INDEPENDENT
    for (; i < whole; i += F16_LANES)
        f16_store(d + i, f16_load(d + i) / by);
    for (; i < count; i++)
        d[i] = f16_narrow(f16_widen(d[i]) / by);
}

/* Partial results keep the lower elements of the lanes, then the upper ones; an odd one is lower.
 */
enum { UPPER = FOLD_HALVES / 2 };

static void bf16_widen_all(float *partial, const void *src, size_t count)
{
    const any_u32 *x = src;

    INDEPENDENT
    for (size_t i = 0; i < count / 2; i++) {
        partial[i] = lower_of(x[i]);
        partial[UPPER + i] = upper_of(x[i]);
    }
    if (count % 2)
        partial[count / 2] = bf16_widen(((const any_half *)src)[count - 1]);
}

static void bf16_narrow_all(void *dst, const float *partial, size_t count)
{
    any_u32 *d = dst;

    INDEPENDENT
    for (size_t i = 0; i < count / 2; i++)
        d[i] = lane_of(bf16_round(partial[UPPER + i]), bf16_round(partial[i]));
    if (count % 2)
        ((any_half *)dst)[count - 1] = (uint16_t)(bf16_round(partial[count / 2]) >> 16);
}

#define BF16_KERNELS(name, OP, ROUND)                                                              \
    static void name(void *dst, const void *va, const void *vb, size_t count)                      \
    {                                                                                              \
        any_u32 *d = dst;                                                                          \
        const any_u32 *x = va, *y = vb;                                                            \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count / 2; i++) {                                                   \
            const float upper_a = upper_of(x[i]), upper_b = upper_of(y[i]);                        \
            const float lower_a = lower_of(x[i]), lower_b = lower_of(y[i]);                        \
                                                                                                   \
            d[i] = lane_of(ROUND(OP(upper_a, upper_b)), ROUND(OP(lower_a, lower_b)));              \
        }                                                                                          \
        if (count % 2) {                                                                           \
            const float a = bf16_widen(((const any_half *)va)[count - 1]);                         \
            const float b = bf16_widen(((const any_half *)vb)[count - 1]);                         \
                                                                                                   \
            ((any_half *)dst)[count - 1] = (uint16_t)(ROUND(OP(a, b)) >> 16);                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_add(float *partial, const void *vb, size_t count)                           \
    {                                                                                              \
        const any_u32 *y = vb;                                                                     \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count / 2; i++) {                                                   \
            const float lower = lower_of(y[i]), upper = upper_of(y[i]);                            \
                                                                                                   \
            partial[i] = OP(partial[i], lower);                                                    \
            partial[UPPER + i] = OP(partial[UPPER + i], upper);                                    \
        }                                                                                          \
        if (count % 2) {                                                                           \
            const float b = bf16_widen(((const any_half *)vb)[count - 1]);                         \
                                                                                                   \
            partial[count / 2] = OP(partial[count / 2], b);                                        \
        }                                                                                          \
    }                                                                                              \
    HALF_MANY(bf16, name)

BF16_KERNELS(bf16_sum, SUM, bf16_round)
BF16_KERNELS(bf16_product, PRODUCT, bf16_round)
BF16_KERNELS(bf16_min, MIN_OR_NAN, bf16_exact)
BF16_KERNELS(bf16_max, MAX_OR_NAN, bf16_exact)

static void bf16_average(void *dst, size_t count, uint32_t members)
{
    any_half *d = dst;
    const float by = (float)members;

    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        d[i] = (uint16_t)(bf16_round(bf16_widen(d[i]) / by) >> 16);
}

/* One register of the instruction set, for the copies. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#define STREAM(to, v) _mm512_stream_si512((__m512i *)(to), (__m512i)(v))
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#define STREAM(to, v) _mm256_stream_si256((__m256i *)(to), (__m256i)(v))
#elif defined(__x86_64__)
enum { VECTOR_BYTES = 16 };
#define STREAM(to, v) _mm_stream_si128((__m128i *)(to), (__m128i)(v))
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef vector ANYWHERE any_vector;

/*
 * From this size on a loop that aligns its stores is as fast as memcpy to aligned targets, and
 * up to three times faster to misaligned ones (measured on Zen 3).
 */
enum { COPY_LOOP_MIN = 2048 };

/* Bytes until `to` is aligned for the loops below. */
static size_t head_of(const void *to)
{
    return -(uintptr_t)to % VECTOR_BYTES;
}

static void copy(void *dst, const void *src, size_t bytes)
{
    char *d = dst;
    const char *s = src;

    if (dst == src || bytes == 0) /* memory of no bytes may be NULL */
        return;
    if (bytes >= COPY_LOOP_MIN) {
        const size_t head = head_of(d);

        memcpy(d, s, VECTOR_BYTES); /* the loop writes again what lies beyond the head */
        d += head, s += head, bytes -= head;
        for (; bytes >= VECTOR_BYTES; d += VECTOR_BYTES, s += VECTOR_BYTES, bytes -= VECTOR_BYTES)
            *(vector *)d = *(const any_vector *)s;
    }
    memcpy(d, s, bytes);
}

static void copy_stream(void *dst, const void *src, size_t bytes)
{
#if defined(STREAM)
    char *d = dst;
    const char *s = src;

    if (dst == src || bytes == 0)
        return;
    if (bytes >= 2 * VECTOR_BYTES) {
        const size_t head = head_of(d);

        memcpy(d, s, head);
        d += head, s += head, bytes -= head;
        for (; bytes >= VECTOR_BYTES; d += VECTOR_BYTES, s += VECTOR_BYTES, bytes -= VECTOR_BYTES)
            STREAM(d, *(const any_vector *)s);
        _mm_sfence();
    }
    memcpy(d, s, bytes);
#else
    copy(dst, src, bytes);
#endif
}

#define ROW(type, suffix)                                                                          \
    {                                                                                              \
        [TUTTI_SUM] = type##_sum##suffix, [TUTTI_AVG] = type##_sum##suffix,                        \
        [TUTTI_PRODUCT] = type##_product##suffix, [TUTTI_MIN] = type##_min##suffix,                \
        [TUTTI_MAX] = type##_max##suffix,                                                          \
    }

const struct reduce_kernels JOIN(reduce_kernels_, KERNELS_ISA) = {
    .isa = TEXT(KERNELS_ISA),
    .pair = {[REDUCE_U8] = ROW(u8, ),
             [REDUCE_I32] = ROW(i32, ),
             [REDUCE_I64] = ROW(i64, ),
             [REDUCE_F16] = ROW(f16, ),
             [REDUCE_BF16] = ROW(bf16, ),
             [REDUCE_F32] = ROW(f32, ),
             [REDUCE_F64] = ROW(f64, )},
    .many = {[REDUCE_U8] = ROW(u8, _many),
             [REDUCE_I32] = ROW(i32, _many),
             [REDUCE_I64] = ROW(i64, _many),
             [REDUCE_F16] = ROW(f16, _many),
             [REDUCE_BF16] = ROW(bf16, _many),
             [REDUCE_F32] = ROW(f32, _many),
             [REDUCE_F64] = ROW(f64, _many)},
    .average = {[REDUCE_U8] = u8_average,
                [REDUCE_I32] = i32_average,
                [REDUCE_I64] = i64_average,
                [REDUCE_F16] = f16_average,
                [REDUCE_BF16] = bf16_average,
                [REDUCE_F32] = f32_average,
                [REDUCE_F64] = f64_average},
    .copy = copy,
    .copy_stream = copy_stream,
};
