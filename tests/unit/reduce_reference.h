/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reduce kernels must give, one element at a time, written without looking at them: half
 * types are decoded and rounded with ldexp and nearbyint on doubles, integers use 128 bits.
 * Elements travel as their bits in a uint64_t.
 */
#ifndef TUTTI_TESTS_REDUCE_REFERENCE_H
#define TUTTI_TESTS_REDUCE_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tutti/tensor.h>

static inline uint64_t reference_load(const void *from, size_t size)
{
    uint64_t bits = 0;

    memcpy(&bits, from, size);
    return bits;
}

/* Fraction bits and the largest exponent of a 16-bit float whose sign is the top bit. */
struct half_format {
    int fraction, top;
};

static inline struct half_format reference_half(tutti_dtype dtype)
{
    return dtype == TUTTI_F16 ? (struct half_format){10, 15} : (struct half_format){7, 127};
}

static inline double reference_half_decode(tutti_dtype dtype, uint64_t bits)
{
    const struct half_format h = reference_half(dtype);
    const int fraction = (int)bits & ((1 << h.fraction) - 1);
    const int exponent = ((int)bits & 0x7fff) >> h.fraction;
    const double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == 2 * h.top + 1)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - h.top - h.fraction);
    return sign * ldexp(fraction + (1 << h.fraction), exponent - h.top - h.fraction);
}

/* Rounds to nearest, ties to even, by dividing by the value of the last place. */
static inline uint64_t reference_half_encode(tutti_dtype dtype, double value)
{
    const struct half_format h = reference_half(dtype);
    const uint64_t sign = signbit(value) ? 0x8000 : 0;
    const uint64_t infinite = (uint64_t)(2 * h.top + 1) << h.fraction;
    int exponent;

    if (isnan(value))
        return infinite | 1;
    if (isinf(value))
        return sign | infinite;
    frexp(fabs(value), &exponent); /* value = [0.5, 1) * 2^exponent */
    exponent = value == 0 || exponent - 1 < 1 - h.top ? 1 - h.top : exponent - 1;

    const double places = nearbyint(ldexp(fabs(value), h.fraction - exponent));
    /* A number that rounds up to the next exponent carries into the exponent's field by itself. */
    const uint64_t bits = ((uint64_t)(exponent + h.top - 1) << h.fraction) + (uint64_t)places;

    return sign | (bits > infinite ? infinite : bits);
}

static inline bool reference_is_float(tutti_dtype dtype)
{
    return dtype == TUTTI_F16 || dtype == TUTTI_BF16 || dtype == TUTTI_F32 || dtype == TUTTI_F64;
}

static inline bool reference_is_half(tutti_dtype dtype)
{
    return dtype == TUTTI_F16 || dtype == TUTTI_BF16;
}

static inline double reference_decode(tutti_dtype dtype, uint64_t bits)
{
    double wide;
    float narrow;
    uint32_t low = (uint32_t)bits;

    if (reference_is_half(dtype))
        return reference_half_decode(dtype, bits);
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return dtype == TUTTI_F32 ? (double)narrow : wide;
}

static inline uint64_t reference_encode(tutti_dtype dtype, double value)
{
    const float narrow = (float)value;

    if (reference_is_half(dtype))
        return reference_half_encode(dtype, value);
    return dtype == TUTTI_F32 ? reference_load(&narrow, sizeof narrow)
                              : reference_load(&value, sizeof value);
}

static inline bool reference_is_nan(tutti_dtype dtype, uint64_t bits)
{
    return reference_is_float(dtype) && isnan(reference_decode(dtype, bits));
}

/*
 * One operation of two numbers in the precision in which the kernels compute: f64 for f64, f32 for
 * all others. A sum or product of two floats in double, rounded to float, is what float gives.
 */
static inline double reference_float_op(tutti_dtype dtype, tutti_reduce_op op, double a, double b)
{
    double result;

    if (op == TUTTI_MIN || op == TUTTI_MAX) {
        if (isnan(a) || isnan(b))
            return NAN;
        return (op == TUTTI_MIN ? a < b : a > b) ? a : b;
    }
    result = op == TUTTI_PRODUCT ? a * b : a + b;
    return dtype == TUTTI_F64 ? result : (double)(float)result;
}

static inline __int128 reference_integer(tutti_dtype dtype, uint64_t bits)
{
    if (dtype == TUTTI_U8)
        return (uint8_t)bits;
    return dtype == TUTTI_I32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

static inline uint64_t reference_wrap(tutti_dtype dtype, __int128 value)
{
    const size_t size = tutti_dtype_size(dtype);

    return size == 8 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << 8 * size) - 1);
}

static inline uint64_t reference_op(tutti_dtype dtype, tutti_reduce_op op, uint64_t a, uint64_t b)
{
    if (reference_is_float(dtype))
        return reference_encode(dtype, reference_float_op(dtype, op, reference_decode(dtype, a),
                                                          reference_decode(dtype, b)));

    const __int128 x = reference_integer(dtype, a), y = reference_integer(dtype, b);

    switch (op) {
    case TUTTI_PRODUCT:
        return reference_wrap(dtype, x * y);
    case TUTTI_MIN:
        return reference_wrap(dtype, x < y ? x : y);
    case TUTTI_MAX:
        return reference_wrap(dtype, x > y ? x : y);
    default:
        return reference_wrap(dtype, x + y);
    }
}

static inline uint64_t reference_average(tutti_dtype dtype, uint64_t bits, uint32_t members)
{
    if (!reference_is_float(dtype))
        return reference_wrap(dtype, reference_integer(dtype, bits) / members);

    const double x = reference_decode(dtype, bits);
    const double quotient = dtype == TUTTI_F64 ? x / members : (double)((float)x / (float)members);

    return reference_encode(dtype, quotient);
}

/* Equal bits, or a NaN where one is due; a half type's must be quiet. */
static inline bool reference_same(tutti_dtype dtype, uint64_t want, uint64_t got)
{
    if (!reference_is_nan(dtype, want))
        return want == got;
    if (dtype == TUTTI_F16)
        return (got & 0x7e00) == 0x7e00;
    return dtype == TUTTI_BF16 ? (got & 0x7fc0) == 0x7fc0 : reference_is_nan(dtype, got);
}

#endif
