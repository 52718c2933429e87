/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements as kernels.c computes with them, in what C and CUDA's C++ have in common. Each element type T has:
 *
 *   T_bits                  how it lies in memory
 *   T_partial               what it is computed in
 *   T_widen(), T_narrow()   between both; narrowing rounds to nearest even
 *   T_sum(), …              the operations, on partial results
 *   T_finish()              of a sum: AVG's division, or a bool's 0 or 1
 *
 * A float has each of them with _number at its end, too: right where the result is a number, and quick.
 *
 * The bits are those of core/reduce on x86-64. GPUs give one NaN for all, so sums and products of floats choose the
 * NaN themselves, as SSE does: that of the first operand that is one, quiet, else the negative one.
 */
#pragma once

#include <stdint.h>

#if defined(__CUDA__)
#define DEVICE static inline __attribute__((device, always_inline))
#else
#define DEVICE static inline __attribute__((always_inline))
#endif

DEVICE float float_of(uint32_t bits)
{
    float value;

    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE uint32_t bits_of(float value)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE double double_of(uint64_t bits)
{
    double value;

    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE uint64_t bits_of_double(double value)
{
    uint64_t bits;

    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- f32 and f64 ------------------------------------------------------------------------------- */

DEVICE float f32_quiet(float nan)
{
    return float_of(bits_of(nan) | 0x400000);
}

DEVICE double f64_quiet(double nan)
{
    return double_of(bits_of_double(nan) | UINT64_C(0x8000000000000));
}

#define F32_NAN float_of(0xffc00000)
#define F64_NAN double_of(UINT64_C(0xfff8000000000000))

#define CHECKED(type, name, OP, NAN_)                                                              \
    DEVICE type##_partial type##_##name##_number(type##_partial a, type##_partial b)               \
    {                                                                                              \
        return a OP b;                                                                             \
    }                                                                                              \
    DEVICE type##_partial type##_##name(type##_partial a, type##_partial b)                        \
    {                                                                                              \
        const type##_partial result = a OP b;                                                      \
                                                                                                   \
        if (result == result)                                                                      \
            return result;                                                                         \
        return a != a ? type##_quiet(a) : b != b ? type##_quiet(b) : NAN_;                         \
    }

/* Of equal values the second, and a NaN as it is. */
#define ORDERED(type, name, OP)                                                                    \
    DEVICE type##_partial type##_##name(type##_partial a, type##_partial b)                        \
    {                                                                                              \
        return a != a || a OP b ? a : b;                                                           \
    }                                                                                              \
    DEVICE type##_partial type##_##name##_number(type##_partial a, type##_partial b)               \
    {                                                                                              \
        return type##_##name(a, b); /* a NaN is noticed by its result */                           \
    }

/* WIDE and BITS: casts, where the types differ. */
#define AS_IT_IS(type, WIDE, BITS)                                                                 \
    DEVICE type##_partial type##_widen(type##_bits bits)                                           \
    {                                                                                              \
        return WIDE bits;                                                                          \
    }                                                                                              \
    DEVICE type##_bits type##_narrow(type##_partial value)                                         \
    {                                                                                              \
        return BITS value;                                                                         \
    }

#define FLOATS(type, base, NAN_)                                                                   \
    typedef base type##_bits, type##_partial;                                                      \
    AS_IT_IS(type, (type##_partial), (type##_bits))                                                \
    CHECKED(type, sum, +, NAN_)                                                                    \
    CHECKED(type, difference, -, NAN_)                                                             \
    CHECKED(type, product, *, NAN_)                                                                \
    CHECKED(type, quotient, /, NAN_)                                                               \
    ORDERED(type, min, <)                                                                          \
    ORDERED(type, max, >)                                                                          \
    DEVICE type##_partial type##_finish(type##_partial value, uint32_t members)                    \
    {                                                                                              \
        return type##_quotient(value, (type##_partial)members);                                    \
    }                                                                                              \
    DEVICE type##_partial type##_finish_number(type##_partial value, uint32_t members)             \
    {                                                                                              \
        return value / (type##_partial)members;                                                    \
    }

FLOATS(f32, float, F32_NAN)
FLOATS(f64, double, F64_NAN)

#define AS_IT_IS_NUMBER(type, base)                                                                \
    DEVICE base type##_widen_number(base value)                                                    \
    {                                                                                              \
        return value;                                                                              \
    }                                                                                              \
    DEVICE base type##_narrow_number(base value)                                                   \
    {                                                                                              \
        return value;                                                                              \
    }

AS_IT_IS_NUMBER(f32, float)
AS_IT_IS_NUMBER(f64, double)

/* ---- floats of 16 and 8 bits -------------------------------------------------------------------- */

#define IN_F32(type, name)                                                                         \
    DEVICE float type##_##name(float a, float b)                                                   \
    {                                                                                              \
        return f32_##name(a, b);                                                                   \
    }

#define SMALL(type, base)                                                                          \
    typedef base type##_bits;                                                                      \
    typedef float type##_partial;                                                                  \
    IN_F32(type, sum)                                                                              \
    IN_F32(type, sum_number)                                                                       \
    IN_F32(type, product)                                                                          \
    IN_F32(type, product_number)                                                                   \
    IN_F32(type, min)                                                                              \
    IN_F32(type, min_number)                                                                       \
    IN_F32(type, max)                                                                              \
    IN_F32(type, max_number)                                                                       \
    DEVICE float type##_finish(float value, uint32_t members)                                      \
    {                                                                                              \
        return f32_finish(value, members);                                                         \
    }                                                                                              \
    DEVICE float type##_finish_number(float value, uint32_t members)                               \
    {                                                                                              \
        return f32_finish_number(value, members);                                                  \
    }

SMALL(f16, uint16_t)
SMALL(bf16, uint16_t)
SMALL(f8e4m3fn, uint8_t)
SMALL(f8e5m2, uint8_t)

#if defined(__CUDA__)

/* The instructions keep nothing of a NaN but that it is one. */
DEVICE float f16_widen_number(uint16_t half)
{
    float value;

    __asm__("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

DEVICE uint16_t f16_narrow_number(float value)
{
    uint16_t half;

    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

#else

DEVICE float f16_widen_number(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest < 0x400) /* whole multiples of 2^-24 */
        return float_of(sign | bits_of((float)rest * 0x1p-24F));
    return float_of(sign | ((rest << 13) + (rest >= 0x7c00 ? 224U << 23 : 112U << 23)));
}

DEVICE uint16_t f16_narrow_number(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

    if (rest >= 0x477ff000) /* 65520 */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* below 2^-14: the last place of 0.5 + x is worth 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5F) - 0x3f000000));
    return (uint16_t)(sign | (rest - (112U << 23) + 0xfff + (rest >> 13 & 1)) >> 13);
}

#endif

DEVICE float f16_widen(uint16_t half)
{
    if ((half & 0x7fff) > 0x7c00)
        return float_of((uint32_t)(half & 0x8000) << 16 | 0x7fc00000 |
                        (uint32_t)(half & 0x3ff) << 13);
    return f16_widen_number(half);
}

DEVICE uint16_t f16_narrow(float value)
{
    if (value != value)
        return (uint16_t)((bits_of(value) >> 16 & 0x8000) | 0x7e00 |
                          (bits_of(value) >> 13 & 0x3ff));
    return f16_narrow_number(value);
}

DEVICE float bf16_widen_number(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

DEVICE uint16_t bf16_narrow_number(float value)
{
    const uint32_t bits = bits_of(value);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

DEVICE float bf16_widen(uint16_t half)
{
    return bf16_widen_number(half);
}

DEVICE uint16_t bf16_narrow(float value)
{
    return value != value ? (uint16_t)((bits_of(value) | 0x400000) >> 16)
                          : bf16_narrow_number(value);
}

/*
 * Floats of 8 bits. `fraction`: bits of it. Numbers below the smallest normal one are multiples of `last`; 2^23 times
 * that has `last` as the worth of its last place, so adding it rounds.
 */
DEVICE uint32_t eight_widen(uint32_t rest, uint32_t fraction, uint32_t rebias, float last)
{
    return rest >> fraction ? (rest << (23 - fraction)) + rebias : bits_of((float)rest * last);
}

DEVICE uint32_t eight_narrow(uint32_t rest, uint32_t fraction, uint32_t rebias, float last)
{
    const uint32_t drop = 23 - fraction;

    if (rest < rebias + (1U << 23))
        return bits_of(float_of(rest) + last * 0x1p23F) - bits_of(last * 0x1p23F);
    return (rest - rebias + (1U << (drop - 1)) - 1 + (rest >> drop & 1)) >> drop;
}

/* A NaN must stay one here, if any. */
DEVICE float f8e4m3fn_widen_number(uint8_t eight)
{
    const uint32_t sign = (uint32_t)(eight & 0x80) << 24, rest = eight & 0x7f;

    return float_of(sign | (rest == 0x7f ? 0x7fc00000 : eight_widen(rest, 3, 120U << 23, 0x1p-9F)));
}

DEVICE uint8_t f8e4m3fn_narrow_number(float value)
{
    const uint32_t sign = bits_of(value) >> 24 & 0x80, rest = bits_of(value) & 0x7fffffff;
    const uint32_t finite = rest > 0x43e00000 ? 0x43e00000 : rest; /* 448 */

    return (uint8_t)(sign | eight_narrow(finite, 3, 120U << 23, 0x1p-9F));
}

DEVICE float f8e4m3fn_widen(uint8_t eight)
{
    return f8e4m3fn_widen_number(eight);
}

DEVICE uint8_t f8e4m3fn_narrow(float value)
{
    if (value != value)
        return (uint8_t)((bits_of(value) >> 24 & 0x80) | 0x7f);
    return f8e4m3fn_narrow_number(value);
}

/* The upper half of an f16. */
DEVICE float f8e5m2_widen_number(uint8_t eight)
{
    return f16_widen_number((uint16_t)(eight << 8));
}

DEVICE uint8_t f8e5m2_narrow_number(float value)
{
    const uint32_t sign = bits_of(value) >> 24 & 0x80, rest = bits_of(value) & 0x7fffffff;

    if (rest > 0x47600000) /* 57344 */
        return (uint8_t)(sign | (rest == 0x7f800000 ? 0x7c : 0x7b));
    return (uint8_t)(sign | eight_narrow(rest, 2, 112U << 23, 0x1p-16F));
}

/* A NaN becomes quiet when it is narrowed. */
DEVICE float f8e5m2_widen(uint8_t eight)
{
    const uint32_t sign = (uint32_t)(eight & 0x80) << 24, rest = eight & 0x7f;

    return rest > 0x7c ? float_of(sign | 0x7f800000 | (rest & 3) << 21)
                       : f8e5m2_widen_number(eight);
}

DEVICE uint8_t f8e5m2_narrow(float value)
{
    const uint32_t bits = bits_of(value);

    if (value != value)
        return (uint8_t)((bits >> 24 & 0x80) | 0x7e | (bits >> 21 & 3));
    return f8e5m2_narrow_number(value);
}

/* ---- integers and bool -------------------------------------------------------------------------- */

/* Narrow integers compute in 32 bits; what is cut off does not matter. */
#define INTEGERS(type, base, wide)                                                                 \
    typedef base type##_bits;                                                                      \
    typedef wide type##_partial;                                                                   \
    AS_IT_IS(type, (type##_partial), (type##_bits))                                                \
    DEVICE wide type##_min(wide a, wide b)                                                         \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    DEVICE wide type##_max(wide a, wide b)                                                         \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }

#define UNSIGNED(type, base, wide)                                                                 \
    INTEGERS(type, base, wide)                                                                     \
    DEVICE wide type##_sum(wide a, wide b)                                                         \
    {                                                                                              \
        return a + b;                                                                              \
    }                                                                                              \
    DEVICE wide type##_product(wide a, wide b)                                                     \
    {                                                                                              \
        return a * b;                                                                              \
    }                                                                                              \
    DEVICE wide type##_band(wide a, wide b)                                                        \
    {                                                                                              \
        return a & b;                                                                              \
    }                                                                                              \
    DEVICE wide type##_bor(wide a, wide b)                                                         \
    {                                                                                              \
        return a | b;                                                                              \
    }                                                                                              \
    DEVICE wide type##_bxor(wide a, wide b)                                                        \
    {                                                                                              \
        return a ^ b;                                                                              \
    }                                                                                              \
    DEVICE wide type##_finish(wide value, uint32_t members)                                        \
    {                                                                                              \
        return (type##_bits)value / members;                                                       \
    }

/* Sums wrap, so they are made without sign. Division truncates toward zero. */
#define SIGNED(type, base, wide, unsigned_wide)                                                    \
    INTEGERS(type, base, wide)                                                                     \
    DEVICE wide type##_sum(wide a, wide b)                                                         \
    {                                                                                              \
        return (wide)((unsigned_wide)a + (unsigned_wide)b);                                        \
    }                                                                                              \
    DEVICE wide type##_finish(wide value, uint32_t members)                                        \
    {                                                                                              \
        const unsigned_wide whole = (unsigned_wide)(type##_bits)value;                             \
                                                                                                   \
        return (wide)((type##_bits)value < 0 ? 0 - (0 - whole) / members : whole / members);       \
    }

UNSIGNED(u8, uint8_t, uint32_t)
UNSIGNED(u16, uint16_t, uint32_t)
UNSIGNED(u32, uint32_t, uint32_t)
UNSIGNED(u64, uint64_t, uint64_t)
SIGNED(i8, int8_t, int32_t, uint32_t)
SIGNED(i16, int16_t, int32_t, uint32_t)
SIGNED(i32, int32_t, int32_t, uint32_t)
SIGNED(i64, int64_t, int64_t, uint64_t)

/* Every byte but 0 is true. */
typedef uint8_t bool_bits;
typedef uint32_t bool_partial;
AS_IT_IS(bool, , (bool_bits))

DEVICE uint32_t bool_sum(uint32_t a, uint32_t b)
{
    return (a | b) != 0;
}

DEVICE uint32_t bool_product(uint32_t a, uint32_t b)
{
    return a != 0 && b != 0;
}

DEVICE uint32_t bool_bxor(uint32_t a, uint32_t b)
{
    return (a != 0) != (b != 0);
}

DEVICE uint32_t bool_finish(uint32_t value, uint32_t members)
{
    (void)members;
    return value != 0;
}

/* ---- complex numbers ---------------------------------------------------------------------------- */

/* The textbook's product, each part of it rounded. */
#define COMPLEX(type, part)                                                                        \
    typedef struct type##_bits {                                                                   \
        part##_bits re, im;                                                                        \
    } type##_bits, type##_partial;                                                                 \
    AS_IT_IS(type, , )                                                                             \
    DEVICE type##_bits type##_sum(type##_bits a, type##_bits b)                                    \
    {                                                                                              \
        const type##_bits result = {part##_sum(a.re, b.re), part##_sum(a.im, b.im)};               \
                                                                                                   \
        return result;                                                                             \
    }                                                                                              \
    DEVICE type##_bits type##_product(type##_bits a, type##_bits b)                                \
    {                                                                                              \
        const type##_bits result = {                                                               \
            part##_difference(part##_product(a.re, b.re), part##_product(a.im, b.im)),             \
            part##_sum(part##_product(a.re, b.im), part##_product(a.im, b.re))};                   \
                                                                                                   \
        return result;                                                                             \
    }                                                                                              \
    DEVICE type##_bits type##_finish(type##_bits value, uint32_t members)                          \
    {                                                                                              \
        const type##_bits result = {part##_finish(value.re, members),                              \
                                    part##_finish(value.im, members)};                             \
                                                                                                   \
        return result;                                                                             \
    }

COMPLEX(c64, f32)
COMPLEX(c128, f64)
