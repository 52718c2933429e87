/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of one instruction set; kernels.cmake compiles this file for each, with KERNELS_ISA
 * naming it. It is plain loops for the compiler to vectorise: integers and 32-bit and wider floats
 * come out as one would write them by hand. Two types need help:
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

#include "reduce/kernels_loops.h"
#include "reduce/kernels_small.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

/* Sums and products of integers wrap, so they are made without sign. */
#define INTEGERS(u, i)                                                                             \
    KERNELS(u, u##_sum, SUM)                                                                       \
    KERNELS(u, u##_product, WRAPPED_PRODUCT)                                                       \
    KERNELS(u, u##_min, MIN)                                                                       \
    KERNELS(u, u##_max, MAX)                                                                       \
    KERNELS(i, i##_min, MIN)                                                                       \
    KERNELS(i, i##_max, MAX)

INTEGERS(u8, i8)
INTEGERS(u16, i16)
INTEGERS(u32, i32)
INTEGERS(u64, i64)

KERNELS(u8, u8_band, BAND)
KERNELS(u8, u8_bor, BOR)
KERNELS(u8, u8_bxor, BXOR)

#define BITWISE(type)                                                                              \
    KERNELS_OF_PARTS(type##_band, u8_band, sizeof(any_##type))                                     \
    KERNELS_OF_PARTS(type##_bor, u8_bor, sizeof(any_##type))                                       \
    KERNELS_OF_PARTS(type##_bxor, u8_bxor, sizeof(any_##type))

BITWISE(u16)
BITWISE(u32)
BITWISE(u64)

/* Every byte but 0 is true; results are 0 or 1. */
KERNELS(u8, bool_all, ALL)
KERNELS(u8, bool_any, ANY)
KERNELS(u8, bool_odd, ODD)

static void bool_truth(void *dst, size_t count, uint32_t members)
{
    any_u8 *d = dst;

    (void)members;
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        d[i] = d[i] != 0;
}

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
AVERAGE(u16, double)
AVERAGE(u32, double)
AVERAGE(u64, uint64_t)
AVERAGE(i8, double)
AVERAGE(i16, double)
AVERAGE(i32, double)
AVERAGE(i64, int64_t)
AVERAGE(f32, float)
AVERAGE(f64, double)

/*
 * The textbook's product: infinities and overflow in it give NaN where Annex G would not. The parts
 * lie apart in between, since GCC 12 makes FMA instructions of neighbours of which one is a sum and
 * one a difference, whatever -ffp-contract says.
 */
#define COMPLEX(type, part)                                                                        \
    KERNELS_OF_PARTS(type##_sum, part##_sum, 2)                                                    \
    struct type##_parts {                                                                          \
        any_##part re[FOLD_COMPLEX], im[FOLD_COMPLEX];                                             \
    };                                                                                             \
    static void type##_split(struct type##_parts *to, const any_##part *from, size_t count)        \
    {                                                                                              \
        UNROLLED                                                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            to->re[i] = from[2 * i];                                                               \
            to->im[i] = from[2 * i + 1];                                                           \
        }                                                                                          \
    }                                                                                              \
    static void type##_times(struct type##_parts *to, const any_##part *by, size_t count)          \
    {                                                                                              \
        UNROLLED                                                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            const any_##part re = to->re[i], im = to->im[i];                                       \
                                                                                                   \
            to->re[i] = re * by[2 * i] - im * by[2 * i + 1];                                       \
            to->im[i] = re * by[2 * i + 1] + im * by[2 * i];                                       \
        }                                                                                          \
    }                                                                                              \
    static void type##_product_many(void *dst, const void *const *vectors, int n, size_t count)    \
    {                                                                                              \
        struct type##_parts parts;                                                                 \
                                                                                                   \
        for (size_t at = 0, now; at < count; at += now) {                                          \
            any_##part *d = (any_##part *)dst + 2 * at;                                            \
                                                                                                   \
            now = count - at < FOLD_COMPLEX ? count - at : FOLD_COMPLEX;                           \
            type##_split(&parts, (const any_##part *)vectors[0] + 2 * at, now);                    \
            for (int i = 1; i < n; i++)                                                            \
                type##_times(&parts, (const any_##part *)vectors[i] + 2 * at, now);                \
            UNROLLED                                                                               \
            for (size_t i = 0; i < now; i++) {                                                     \
                d[2 * i] = parts.re[i];                                                            \
                d[2 * i + 1] = parts.im[i];                                                        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void type##_product(void *dst, const void *a, const void *b, size_t count)              \
    {                                                                                              \
        type##_product_many(dst, (const void *[]){a, b}, 2, count);                                \
    }                                                                                              \
    static void type##_average(void *dst, size_t count, uint32_t members)                          \
    {                                                                                              \
        part##_average(dst, 2 * count, members);                                                   \
    }

COMPLEX(c64, f32)
COMPLEX(c128, f64)

/* Calls divide the partial results of these types, before they are rounded (tree.h), so this division is
 * rare and has no loop of its own. */
static void average_small(void *dst, size_t count, uint32_t members, size_t size,
                          reduce_widen_fn widen, reduce_narrow_fn narrow)
{
    _Alignas(64) float quotients[FOLD_FLOATS];

    for (size_t at = 0, part; at < count; at += part) {
        char *d = (char *)dst + at * size;

        part = count - at < FOLD_FLOATS ? count - at : FOLD_FLOATS;
        widen(quotients, d, part);
        f32_average(quotients, part, members);
        narrow(d, quotients, part);
    }
}

#define SMALL_AVERAGE(type, size)                                                                  \
    static void type##_average(void *dst, size_t count, uint32_t members)                          \
    {                                                                                              \
        average_small(dst, count, members, size, type##_widen_all, type##_narrow_all);             \
    }

/* The functions by which small floats fold many vectors: into floats, one more vector, and back. */
typedef void (*add_fn)(float *partial, const void *src, size_t count);

static void fold_small(void *dst, const void *const *vectors, int n, size_t count, size_t size,
                       reduce_widen_fn widen, add_fn add, reduce_narrow_fn narrow)
{
    _Alignas(64) float partial[FOLD_FLOATS];

    if (n == 1) {
        copy(dst, vectors[0], count * size);
        return;
    }
    for (size_t at = 0, part; at < count; at += part) {
        part = count - at < FOLD_FLOATS ? count - at : FOLD_FLOATS;
        widen(partial, (const char *)vectors[0] + at * size, part);
        for (int i = 1; i < n; i++)
            add(partial, (const char *)vectors[i] + at * size, part);
        narrow((char *)dst + at * size, partial, part);
    }
}

#define SMALL_MANY(type, size, name)                                                               \
    static void name##_many(void *dst, const void *const *vectors, int n, size_t count)            \
    {                                                                                              \
        if (n == 2)                                                                                \
            name(dst, vectors[0], vectors[1], count);                                              \
        else                                                                                       \
            fold_small(dst, vectors, n, count, size, type##_widen_all, name##_add,                 \
                       type##_narrow_all);                                                         \
    }

/*
 * Conversions in integer arithmetic are long code. So two vectors are folded by way of floats, as many are. It
 * takes as long as a loop over both.
 */
#define SMALL_BY_FLOATS(type, size, name)                                                          \
    static void name##_many(void *dst, const void *const *vectors, int n, size_t count)            \
    {                                                                                              \
        fold_small(dst, vectors, n, count, size, type##_widen_all, name##_add, type##_narrow_all); \
    }                                                                                              \
    static void name(void *dst, const void *a, const void *b, size_t count)                        \
    {                                                                                              \
        name##_many(dst, (const void *[]){a, b}, 2, count);                                        \
    }

#if defined(__F16C__)
#define UNROLLED_CONVERSIONS UNROLLED
#else
#define UNROLLED_CONVERSIONS INDEPENDENT
#endif

static void f16_widen_all(float *partial, const void *src, size_t count)
{
    const any_half *x = src;
    const size_t whole = count - count % F16_LANES;
    size_t i = 0;

    UNROLLED_CONVERSIONS
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

    UNROLLED_CONVERSIONS
    for (; i < whole; i += F16_LANES) {
        f16_lanes v;

        memcpy(&v, partial + i, sizeof v);
        f16_store(d + i, v);
    }
    for (; i < count; i++)
        d[i] = f16_narrow(partial[i]);
}

#define F16_PAIR(name, OP)                                                                         \
    static void name(void *dst, const void *va, const void *vb, size_t count)                      \
    {                                                                                              \
        any_half *d = dst;                                                                         \
        const any_half *x = va, *y = vb;                                                           \
        const size_t whole = count - count % F16_LANES;                                            \
        size_t i = 0;                                                                              \
                                                                                                   \
        UNROLLED                                                                                   \
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
    SMALL_MANY(f16, sizeof(any_half), name)

#define F16_ADD(name, OP)                                                                          \
    static void name##_add(float *partial, const void *vb, size_t count)                           \
    {                                                                                              \
        const any_half *y = vb;                                                                    \
        const size_t whole = count - count % F16_LANES;                                            \
        size_t i = 0;                                                                              \
                                                                                                   \
        UNROLLED_CONVERSIONS                                                                       \
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
    }

#if defined(__F16C__)
#define F16_KERNELS(name, OP) F16_ADD(name, OP) F16_PAIR(name, OP)
#else
#define F16_KERNELS(name, OP) F16_ADD(name, OP) SMALL_BY_FLOATS(f16, sizeof(any_half), name)
#endif

F16_KERNELS(f16_sum, SUM)
F16_KERNELS(f16_product, PRODUCT)
F16_KERNELS(f16_min, MIN_OR_NAN)
F16_KERNELS(f16_max, MAX_OR_NAN)
SMALL_AVERAGE(f16, sizeof(any_half))

#define CONVERSIONS(type, element, which)                                                          \
    static void type##_widen_##which(float *dst, const void *src, size_t count)                    \
    {                                                                                              \
        const element *x = src;                                                                    \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            dst[i] = type##_widen(x[i]);                                                           \
    }                                                                                              \
    static void type##_narrow_##which(void *dst, const float *src, size_t count)                   \
    {                                                                                              \
        element *d = dst;                                                                          \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            d[i] = type##_narrow(src[i]);                                                          \
    }

/* Partial results keep the lower elements of the lanes, then the upper; an odd one is lower. */
enum { UPPER = FOLD_FLOATS / 2 };

static void bf16_widen_all(float *partial, const void *src, size_t count)
{
    const any_u32 *x = src;

    UNROLLED
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

    UNROLLED
    for (size_t i = 0; i < count / 2; i++)
        d[i] = lane_of(bf16_round(partial[UPPER + i]), bf16_round(partial[i]));
    if (count % 2)
        ((any_half *)dst)[count - 1] = bf16_narrow(partial[count / 2]);
}

/* The same in their order. */
CONVERSIONS(bf16, any_half, each)

#define BF16_KERNELS(name, OP, ROUND)                                                              \
    static void name(void *dst, const void *va, const void *vb, size_t count)                      \
    {                                                                                              \
        any_u32 *d = dst;                                                                          \
        const any_u32 *x = va, *y = vb;                                                            \
                                                                                                   \
        UNROLLED                                                                                   \
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
        UNROLLED                                                                                   \
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
    SMALL_MANY(bf16, sizeof(any_half), name)

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
        d[i] = bf16_narrow(bf16_widen(d[i]) / by);
}

/* Rare kernels consist of conversions and the kernels of f32, without a loop of their own: up to a
 * tenth slower. */
#define EIGHT_KERNELS(type, name, OP)                                                              \
    static void name##_add(float *partial, const void *vb, size_t count)                           \
    {                                                                                              \
        const any_u8 *y = vb;                                                                      \
                                                                                                   \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const float a = partial[i], b = type##_widen(y[i]);                                    \
                                                                                                   \
            partial[i] = OP(a, b);                                                                 \
        }                                                                                          \
    }                                                                                              \
    SMALL_BY_FLOATS(type, 1, name)

#define EIGHT_KERNELS_OF_FLOATS(type, name, f32_name)                                              \
    static void name##_add(float *partial, const void *vb, size_t count)                           \
    {                                                                                              \
        _Alignas(64) float b[FOLD_FLOATS];                                                         \
                                                                                                   \
        type##_widen_all(b, vb, count);                                                            \
        f32_name(partial, partial, b, count);                                                      \
    }                                                                                              \
    SMALL_BY_FLOATS(type, 1, name)

#define EIGHT(type)                                                                                \
    CONVERSIONS(type, any_u8, all)                                                                 \
    SMALL_AVERAGE(type, 1)                                                                         \
    EIGHT_KERNELS(type, type##_sum, SUM)                                                           \
    EIGHT_KERNELS(type, type##_product, PRODUCT)                                                   \
    EIGHT_KERNELS_OF_FLOATS(type, type##_min, f32_min)                                             \
    EIGHT_KERNELS_OF_FLOATS(type, type##_max, f32_max)

EIGHT(f8e4m3fn)
EIGHT(f8e5m2)

#define SUMS(type, suffix)                                                                         \
    [TUTTI_SUM] = type##_sum##suffix, [TUTTI_AVG] = type##_sum##suffix,                            \
    [TUTTI_PRODUCT] = type##_product##suffix
#define ORDER(type, suffix) [TUTTI_MIN] = type##_min##suffix, [TUTTI_MAX] = type##_max##suffix
#define BITS(type, suffix)                                                                         \
    [TUTTI_BAND] = type##_band##suffix, [TUTTI_BOR] = type##_bor##suffix,                          \
    [TUTTI_BXOR] = type##_bxor##suffix

#define INTEGER_ROWS(bits, suffix)                                                                 \
    [REDUCE_U##bits] = {SUMS(u##bits, suffix), ORDER(u##bits, suffix), BITS(u##bits, suffix)},     \
    [REDUCE_I##bits] = {SUMS(u##bits, suffix), ORDER(i##bits, suffix), BITS(u##bits, suffix)}
#define INTEGER_AVERAGES(bits)                                                                     \
    [REDUCE_U##bits] = u##bits##_average, [REDUCE_I##bits] = i##bits##_average
#define FLOAT_ROW(NAME, type, suffix) [REDUCE_##NAME] = {SUMS(type, suffix), ORDER(type, suffix)}

#define ROWS(suffix)                                                                               \
    {                                                                                              \
        [REDUCE_BOOL] = {[TUTTI_SUM] = bool_any##suffix,  [TUTTI_PRODUCT] = bool_all##suffix,      \
                         [TUTTI_MIN] = bool_all##suffix,  [TUTTI_MAX] = bool_any##suffix,          \
                         [TUTTI_BAND] = bool_all##suffix, [TUTTI_BOR] = bool_any##suffix,          \
                         [TUTTI_BXOR] = bool_odd##suffix},                                         \
        INTEGER_ROWS(8, suffix), INTEGER_ROWS(16, suffix), INTEGER_ROWS(32, suffix),               \
        INTEGER_ROWS(64, suffix), FLOAT_ROW(F16, f16, suffix), FLOAT_ROW(BF16, bf16, suffix),      \
        FLOAT_ROW(F32, f32, suffix), FLOAT_ROW(F64, f64, suffix),                                  \
        FLOAT_ROW(F8E4M3FN, f8e4m3fn, suffix), FLOAT_ROW(F8E5M2, f8e5m2, suffix),                  \
        [REDUCE_C64] = {SUMS(c64, suffix)}, [REDUCE_C128] = {SUMS(c128, suffix)},                  \
    }

const struct reduce_kernels JOIN(reduce_kernels_, KERNELS_ISA) = {
    .isa = TEXT(KERNELS_ISA),
    .pair = ROWS(),
    .many = ROWS(_many),
    .average = {INTEGER_AVERAGES(8), INTEGER_AVERAGES(16), INTEGER_AVERAGES(32),
                INTEGER_AVERAGES(64), [REDUCE_F16] = f16_average, [REDUCE_BF16] = bf16_average,
                [REDUCE_F32] = f32_average, [REDUCE_F64] = f64_average,
                [REDUCE_F8E4M3FN] = f8e4m3fn_average, [REDUCE_F8E5M2] = f8e5m2_average,
                [REDUCE_C64] = c64_average, [REDUCE_C128] = c128_average},
    .truth = bool_truth,
    .widen = {[REDUCE_F16] = f16_widen_all,
              [REDUCE_BF16] = bf16_widen_each,
              [REDUCE_F8E4M3FN] = f8e4m3fn_widen_all,
              [REDUCE_F8E5M2] = f8e5m2_widen_all},
    .narrow = {[REDUCE_F16] = f16_narrow_all,
               [REDUCE_BF16] = bf16_narrow_each,
               [REDUCE_F8E4M3FN] = f8e4m3fn_narrow_all,
               [REDUCE_F8E5M2] = f8e5m2_narrow_all},
    .copy = copy,
};
