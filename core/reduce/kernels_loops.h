/* SPDX-License-Identifier: Apache-2.0 */
/* The types and operations of kernels.c, the shapes of its plain loops, and its copy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "reduce/kernels_small.h"
#include "reduce/reduce.h"

/*
 * UNROLLED loops are independent, too. Those of common types and operations are unrolled, since vectors in L1 are
 * reduced up to twice as fast by it; elsewhere it is code without a gain. Clang unrolls what it vectorises.
 */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLLED INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define UNROLLED _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif

typedef float ANYWHERE any_f32;
typedef double ANYWHERE any_f64;
typedef int8_t any_i8;
typedef int16_t ANYWHERE any_i16;
typedef int32_t ANYWHERE any_i32;
typedef int64_t ANYWHERE any_i64;
typedef uint8_t any_u8;
typedef uint16_t ANYWHERE any_u16;
typedef uint32_t ANYWHERE any_u32;
typedef uint64_t ANYWHERE any_u64;

/* Elements of a partial result that stays in L1 while many vectors are folded into it. */
enum { FOLD_BYTES = 4096, FOLD_FLOATS = FOLD_BYTES / sizeof(float), FOLD_COMPLEX = 256 };

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define WRAPPED_PRODUCT(a, b) ((a)*1U * (b)) /* two u16 would be multiplied as int */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* A NaN in b fails the comparison and so passes; one in a needs a look of its own. */
#define MIN_OR_NAN(a, b) first_nan(a, MIN(a, b))
#define MAX_OR_NAN(a, b) first_nan(a, MAX(a, b))
#define BAND(a, b) ((a) & (b))
#define BOR(a, b) ((a) | (b))
#define BXOR(a, b) ((a) ^ (b))
#define ALL(a, b) (((a) != 0) & ((b) != 0))
#define ANY(a, b) (((a) | (b)) != 0)
#define ODD(a, b) (((a) != 0) != ((b) != 0))
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

/* One register of the instruction set. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint64_t any_vector __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

/*
 * From this size on a loop that aligns its stores is as fast as memcpy to aligned targets, and
 * up to three times faster to misaligned ones (measured on Zen 3).
 */
enum { COPY_LOOP_MIN = 2048 };

static void copy(void *dst, const void *src, size_t bytes)
{
    char *d = dst;
    const char *s = src;

    if (dst == src || bytes == 0) /* memory of no bytes may be NULL */
        return;
    if (bytes >= COPY_LOOP_MIN) {
        const size_t head = -(uintptr_t)d % VECTOR_BYTES;

        memcpy(d, s, VECTOR_BYTES); /* the loop writes again what lies beyond the head */
        d += head, s += head, bytes -= head;
        for (; bytes >= VECTOR_BYTES; d += VECTOR_BYTES, s += VECTOR_BYTES, bytes -= VECTOR_BYTES)
            *(vector *)d = *(const any_vector *)s;
    }
    memcpy(d, s, bytes);
}

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
        UNROLLED                                                                                   \
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
        UNROLLED                                                                                   \
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

/* A type whose operation is that of `parts` elements of another. */
#define KERNELS_OF_PARTS(name, part, parts)                                                        \
    static void name(void *dst, const void *a, const void *b, size_t count)                        \
    {                                                                                              \
        part(dst, a, b, count *(parts));                                                           \
    }                                                                                              \
    static void name##_many(void *dst, const void *const *vectors, int n, size_t count)            \
    {                                                                                              \
        part##_many(dst, vectors, n, count *(parts));                                              \
    }
