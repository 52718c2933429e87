/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reduce kernels must give, one element at a time, written without looking at them: small
 * floats are decoded and rounded with ldexp and nearbyint on doubles, integers use 128 bits.
 * Elements travel as their bits in a reference_bits; a complex number's imaginary part is above.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tutti/tensor.h>

enum { REFERENCE_SIZE_MAX = 16 }; /* of an element */

typedef unsigned __int128 reference_bits;

static inline reference_bits reference_load(const void *from, size_t size)
{
    reference_bits bits = 0;

    memcpy(&bits, from, size);
    return bits;
}

/* A float whose sign is the top bit. */
struct small_format {
    int width, fraction, bias;
    unsigned largest;  /* finite */
    unsigned infinite; /* 0: there is none */
    unsigned quiet;    /* a NaN */
    bool saturates;
};

/* NULL: not a float of 8 or 16 bits. */
static inline const struct small_format *reference_small(tutti_dtype dtype)
{
    static const struct small_format f16 = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, false},
                                     bf16 = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false},
                                     f8e4m3fn = {8, 3, 7, 0x7e, 0, 0x7f, true},
                                     f8e5m2 = {8, 2, 15, 0x7b, 0x7c, 0x7e, true};

    return dtype == TUTTI_F16        ? &f16
           : dtype == TUTTI_BF16     ? &bf16
           : dtype == TUTTI_F8E4M3FN ? &f8e4m3fn
           : dtype == TUTTI_F8E5M2   ? &f8e5m2
                                     : NULL;
}

static inline double reference_small_decode(const struct small_format *f, unsigned bits)
{
    const unsigned top = 1U << (f->width - 1), rest = bits & (top - 1);
    const int fraction = (int)rest & ((1 << f->fraction) - 1), exponent = (int)rest >> f->fraction;
    const double sign = bits & top ? -1 : 1;

    if (f->infinite && rest == f->infinite)
        return sign * INFINITY;
    if (rest > f->largest)
        return NAN;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - f->bias - f->fraction);
    return sign * ldexp(fraction + (1 << f->fraction), exponent - f->bias - f->fraction);
}

/* Rounds to nearest, ties to even, by dividing by the value of the last place. */
static inline unsigned reference_small_encode(const struct small_format *f, double value)
{
    const unsigned sign = signbit(value) ? 1U << (f->width - 1) : 0;
    int exponent;

    if (isnan(value))
        return f->quiet;
    if (isinf(value))
        return sign | (f->infinite ? f->infinite : f->largest);
    frexp(fabs(value), &exponent); /* value = [0.5, 1) * 2^exponent */
    exponent = value == 0 || exponent - 1 < 1 - f->bias ? 1 - f->bias : exponent - 1;

    const double places = nearbyint(ldexp(fabs(value), f->fraction - exponent));
    /* A number that rounds up to the next exponent carries into the exponent's field by itself. */
    const uint64_t bits = ((uint64_t)(exponent + f->bias - 1) << f->fraction) + (uint64_t)places;

    if (bits > f->largest)
        return sign | (f->saturates ? f->largest : f->infinite);
    return sign | (unsigned)bits;
}

static inline bool reference_is_complex(tutti_dtype dtype)
{
    return dtype == TUTTI_C64 || dtype == TUTTI_C128;
}

/* A real one. */
static inline bool reference_is_float(tutti_dtype dtype)
{
    return reference_small(dtype) || dtype == TUTTI_F32 || dtype == TUTTI_F64;
}

static inline double reference_decode(tutti_dtype dtype, reference_bits bits)
{
    double wide;
    float narrow;
    const uint64_t whole = (uint64_t)bits;
    const uint32_t low = (uint32_t)bits;

    if (reference_small(dtype))
        return reference_small_decode(reference_small(dtype), low);
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &whole, sizeof wide);
    return dtype == TUTTI_F32 ? (double)narrow : wide;
}

static inline reference_bits reference_encode(tutti_dtype dtype, double value)
{
    const float narrow = (float)value;

    if (reference_small(dtype))
        return reference_small_encode(reference_small(dtype), value);
    return dtype == TUTTI_F32 ? reference_load(&narrow, sizeof narrow)
                              : reference_load(&value, sizeof value);
}

/* The parts of a complex number. */
static inline tutti_dtype reference_part(tutti_dtype complex)
{
    return complex == TUTTI_C64 ? TUTTI_F32 : TUTTI_F64;
}

static inline double reference_re(tutti_dtype complex, reference_bits bits)
{
    return reference_decode(reference_part(complex), bits);
}

static inline double reference_im(tutti_dtype complex, reference_bits bits)
{
    return reference_decode(reference_part(complex), bits >> 4 * tutti_dtype_size(complex));
}

static inline reference_bits reference_complex(tutti_dtype complex, double re, double im)
{
    const tutti_dtype part = reference_part(complex);

    return reference_encode(part, re) | reference_encode(part, im) << 4 * tutti_dtype_size(complex);
}

static inline bool reference_is_nan(tutti_dtype dtype, reference_bits bits)
{
    if (reference_is_complex(dtype))
        return isnan(reference_re(dtype, bits)) || isnan(reference_im(dtype, bits));
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

static inline reference_bits reference_complex_op(tutti_dtype dtype, tutti_reduce_op op,
                                                  reference_bits a, reference_bits b)
{
    const tutti_dtype part = reference_part(dtype);
    const double ar = reference_re(dtype, a), ai = reference_im(dtype, a);
    const double br = reference_re(dtype, b), bi = reference_im(dtype, b);
    const tutti_reduce_op times = TUTTI_PRODUCT, plus = TUTTI_SUM;

    if (op != TUTTI_PRODUCT)
        return reference_complex(dtype, reference_float_op(part, plus, ar, br),
                                 reference_float_op(part, plus, ai, bi));
    return reference_complex(dtype,
                             reference_float_op(part, plus, reference_float_op(part, times, ar, br),
                                                -reference_float_op(part, times, ai, bi)),
                             reference_float_op(part, plus, reference_float_op(part, times, ar, bi),
                                                reference_float_op(part, times, ai, br)));
}

static inline __int128 reference_integer(tutti_dtype dtype, reference_bits bits)
{
    const size_t size = tutti_dtype_size(dtype);
    const bool is_signed = (dtype & 0xff) == 0;
    const __int128 value = (__int128)bits;

    return is_signed && bits >> (8 * size - 1) ? value - ((__int128)1 << 8 * size) : value;
}

static inline reference_bits reference_wrap(tutti_dtype dtype, __int128 value)
{
    const size_t size = tutti_dtype_size(dtype);

    return size == REFERENCE_SIZE_MAX
               ? (reference_bits)value
               : (reference_bits)value & (((reference_bits)1 << 8 * size) - 1);
}

static inline bool reference_bool_op(tutti_reduce_op op, bool a, bool b)
{
    switch (op) {
    case TUTTI_PRODUCT:
    case TUTTI_MIN:
    case TUTTI_BAND:
        return a && b;
    case TUTTI_BXOR:
        return a != b;
    default:
        return a || b;
    }
}

static inline reference_bits reference_op(tutti_dtype dtype, tutti_reduce_op op, reference_bits a,
                                          reference_bits b)
{
    if (dtype == TUTTI_BOOL)
        return reference_bool_op(op, a != 0, b != 0);
    if (reference_is_complex(dtype))
        return reference_complex_op(dtype, op, a, b);
    if (reference_is_float(dtype))
        return reference_encode(dtype, reference_float_op(dtype, op, reference_decode(dtype, a),
                                                          reference_decode(dtype, b)));

    const __int128 x = reference_integer(dtype, a), y = reference_integer(dtype, b);

    switch (op) {
    case TUTTI_PRODUCT:
        return reference_wrap(dtype, (__int128)((reference_bits)x * (reference_bits)y));
    case TUTTI_MIN:
        return reference_wrap(dtype, x < y ? x : y);
    case TUTTI_MAX:
        return reference_wrap(dtype, x > y ? x : y);
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    default:
        return reference_wrap(dtype, x + y);
    }
}

static inline double reference_quotient(tutti_dtype dtype, double x, uint32_t members)
{
    return dtype == TUTTI_F64 ? x / members : (double)((float)x / (float)members);
}

static inline reference_bits reference_average(tutti_dtype dtype, reference_bits bits,
                                               uint32_t members)
{
    const tutti_dtype part = reference_part(dtype);

    if (reference_is_complex(dtype))
        return reference_complex(dtype,
                                 reference_quotient(part, reference_re(dtype, bits), members),
                                 reference_quotient(part, reference_im(dtype, bits), members));
    if (!reference_is_float(dtype))
        return reference_wrap(dtype, reference_integer(dtype, bits) / members);
    return reference_encode(dtype,
                            reference_quotient(dtype, reference_decode(dtype, bits), members));
}

/* The fixed order's tree, of floats that are not rounded to their dtype on the way. */
static inline double reference_tree_of_floats(tutti_dtype dtype, tutti_reduce_op op,
                                              const reference_bits *operands, int n)
{
    int left = 1;

    if (n == 1)
        return reference_decode(dtype, *operands);
    while (2 * left < n)
        left *= 2;
    return reference_float_op(dtype, op, reference_tree_of_floats(dtype, op, operands, left),
                              reference_tree_of_floats(dtype, op, operands + left, n - left));
}

/* The operands of n members in the fixed order: split at the largest power of two below n. */
static inline reference_bits reference_tree(tutti_dtype dtype, tutti_reduce_op op,
                                            const reference_bits *operands, int n)
{
    int left = 1;

    if (n == 1)
        return *operands;
    if (reference_small(dtype))
        return reference_encode(dtype, reference_tree_of_floats(dtype, op, operands, n));
    while (2 * left < n)
        left *= 2;
    return reference_op(dtype, op, reference_tree(dtype, op, operands, left),
                        reference_tree(dtype, op, operands + left, n - left));
}

/* AVG of n members in the fixed order: of small floats the sum is divided before it is rounded. */
static inline reference_bits reference_tree_average(tutti_dtype dtype,
                                                    const reference_bits *operands, int n)
{
    if (n > 1 && reference_small(dtype))
        return reference_encode(
            dtype,
            reference_quotient(dtype, reference_tree_of_floats(dtype, TUTTI_SUM, operands, n),
                               (uint32_t)n));
    return reference_average(dtype, reference_tree(dtype, TUTTI_SUM, operands, n), (uint32_t)n);
}

/* Equal bits, or a NaN where one is due; a small float's must be quiet. */
static inline bool reference_same(tutti_dtype dtype, reference_bits want, reference_bits got)
{
    const struct small_format *small = reference_small(dtype);

    if (reference_is_complex(dtype)) {
        const tutti_dtype part = reference_part(dtype);
        const size_t half = 4 * tutti_dtype_size(dtype);
        const reference_bits low = ((reference_bits)1 << half) - 1;

        return reference_same(part, want & low, got & low) &&
               reference_same(part, want >> half, got >> half);
    }
    if (!reference_is_nan(dtype, want))
        return want == got;
    return small ? (got & small->quiet) == small->quiet : reference_is_nan(dtype, got);
}
