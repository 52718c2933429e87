/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversions of floats of 16 and 8 bits, for kernels.c: one element at a time, and for f16 also a register
 * full, with the instructions of F16C where the build has them. Those and the integer arithmetic
 * used elsewhere agree on every bit, NaNs included: sign and upper payload stay, quiet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Elements wherever they lie: no alignment, any effective type. */
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint16_t ANYWHERE any_half;

static inline float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Not ?:, which the compiler makes a branch of here, and then no vectors. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = -(uint32_t)condition;

    return (yes & mask) | (no & ~mask);
}

/* f16: one element, and as many as a register has where the CPU converts them. */
#if defined(__F16C__)

static inline float f16_widen(uint16_t half)
{
    return _cvtsh_ss(half);
}

static inline uint16_t f16_narrow(float value)
{
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

#else

/* Subnormals get an exponent and lose it again: exact, and without subnormal floats on the way. */
static inline float f16_widen(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const int32_t rest = half & 0x7fff;
    const uint32_t normal = ((uint32_t)rest << 13) + (112U << 23);
    const uint32_t small = bits_of(float_of(normal + (1U << 23)) - 0x1p-14F);
    const uint32_t special = (normal + (112U << 23)) | choose(rest > 0x7c00, 0x400000, 0);
    const uint32_t finite = choose(rest < 0x400, small, normal);

    return float_of(sign | choose(rest >= 0x7c00, special, finite));
}

static inline uint16_t f16_narrow(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
    const uint32_t rest = bits & 0x7fffffff;
    const int32_t size = (int32_t)rest; /* signed comparisons are what SSE2 has */
    /* Below 2^-14: the last bit of 0.5 + x is worth 2^-24, as that of a subnormal f16. */
    const uint32_t small = bits_of(float_of(rest) + 0.5F) - 0x3f000000;
    const uint32_t normal = (rest - (112U << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    const uint32_t finite = choose(size < 0x38800000, small, normal);
    const uint32_t number = choose(size >= 0x477ff000, 0x7c00, finite); /* from 65520: infinite */
    const uint32_t nan = 0x7e00 | (rest >> 13 & 0x3ff);

    return (uint16_t)(sign | choose(size > 0x7f800000, nan, number));
}

#endif

#define LANES_SUM SUM
#define LANES_PRODUCT PRODUCT
/* LANES_MIN, LANES_MAX: the instructions give the second operand if one is NaN, as MIN and MAX. */
#if defined(__AVX512F__)

enum { F16_LANES = 16 };
typedef __m512 f16_lanes;

static inline f16_lanes f16_load(const any_half *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

static inline void f16_store(any_half *to, f16_lanes v)
{
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline f16_lanes f16_nan_of(f16_lanes a, f16_lanes otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

#define LANES_MIN_OR_NAN(a, b) f16_nan_of(a, _mm512_min_ps(a, b))
#define LANES_MAX_OR_NAN(a, b) f16_nan_of(a, _mm512_max_ps(a, b))

#elif defined(__F16C__)

enum { F16_LANES = 8 };
typedef __m256 f16_lanes;

static inline f16_lanes f16_load(const any_half *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

static inline void f16_store(any_half *to, f16_lanes v)
{
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline f16_lanes f16_nan_of(f16_lanes a, f16_lanes otherwise)
{
    return _mm256_blendv_ps(otherwise, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

#define LANES_MIN_OR_NAN(a, b) f16_nan_of(a, _mm256_min_ps(a, b))
#define LANES_MAX_OR_NAN(a, b) f16_nan_of(a, _mm256_max_ps(a, b))

#else

enum { F16_LANES = 1 }; /* the loops over lanes are then what the compiler vectorises */
typedef float f16_lanes;

static inline f16_lanes f16_load(const any_half *from)
{
    return f16_widen(*from);
}

static inline void f16_store(any_half *to, f16_lanes v)
{
    *to = f16_narrow(v);
}

#define LANES_MIN_OR_NAN MIN_OR_NAN
#define LANES_MAX_OR_NAN MAX_OR_NAN

#endif

/*
 * bf16 is the upper half of an f32. Rounded in place: the result is in the upper 16 bits. MIN and
 * MAX give one of their operands, for which there is nothing to round.
 */
static inline uint32_t bf16_round(float value)
{
    const uint32_t bits = bits_of(value);

    return value != value ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
}

static inline uint32_t bf16_exact(float value)
{
    return bits_of(value) | (value != value ? 0x400000 : 0);
}

static inline float bf16_widen(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

static inline uint16_t bf16_narrow(float value)
{
    return (uint16_t)(bf16_round(value) >> 16);
}

static inline float upper_of(uint32_t lane)
{
    return float_of(lane & 0xffff0000);
}

static inline float lower_of(uint32_t lane)
{
    return float_of(lane << 16);
}

static inline uint32_t lane_of(uint32_t upper, uint32_t lower)
{
    return (upper & 0xffff0000) | lower >> 16;
}

/*
 * Floats of eight bits, in integer arithmetic that vectorises.
 *
 * e4m3fn has no infinity, and one NaN of each sign; e5m2 is the upper half of an f16. Narrowing
 * rounds to nearest even and saturates: what is larger than the largest finite number (448, 57344)
 * becomes that number. An infinity stays one in e5m2 and saturates in e4m3fn; a NaN stays one.
 */

/* Numbers below the smallest normal one are whole multiples of `last`. */
static inline uint32_t eight_widen(uint32_t rest, int fraction, int bias, float last)
{
    const uint32_t normal = (rest << (23 - fraction)) + ((127U - (uint32_t)bias) << 23);
    const uint32_t small = bits_of((float)(int32_t)rest * last);

    return choose(rest < 1U << fraction, small, normal);
}

/* `magic`: a float whose last place is worth the smallest number above zero. */
static inline uint32_t eight_round(uint32_t rest, int fraction, int bias, float magic)
{
    const int drop = 23 - fraction;
    const uint32_t half = (1U << (drop - 1)) - 1, rebias = (127U - (uint32_t)bias) << 23;
    const uint32_t small = bits_of(float_of(rest) + magic) - bits_of(magic);
    const uint32_t normal = (rest - rebias + half + (rest >> drop & 1)) >> drop;

    return choose(rest < rebias + (1U << 23), small, normal);
}

static inline float f8e4m3fn_widen(uint8_t eight)
{
    const uint32_t rest = eight & 0x7f;
    const uint32_t finite = eight_widen(rest, 3, 7, 0x1p-9F);

    return float_of((uint32_t)(eight & 0x80) << 24 | choose(rest == 0x7f, 0x7fc00000, finite));
}

static inline uint8_t f8e4m3fn_narrow(float value)
{
    const uint32_t bits = bits_of(value), rest = bits & 0x7fffffff;
    const uint32_t finite =
        choose(rest > 0x43e00000, 0x7e, eight_round(rest, 3, 7, 0x1p14F)); /* 448 */

    return (uint8_t)((bits >> 24 & 0x80) | choose(rest > 0x7f800000, 0x7f, finite));
}

static inline float f8e5m2_widen(uint8_t eight)
{
    const uint32_t rest = eight & 0x7f;
    const uint32_t finite = eight_widen(rest, 2, 15, 0x1p-16F);
    const uint32_t special = 0x7f800000 | (rest & 3) << 21;

    return float_of((uint32_t)(eight & 0x80) << 24 | choose(rest >= 0x7c, special, finite));
}

static inline uint8_t f8e5m2_narrow(float value)
{
    const uint32_t bits = bits_of(value), rest = bits & 0x7fffffff;
    const uint32_t finite =
        choose(rest > 0x47600000, 0x7b, eight_round(rest, 2, 15, 0x1p7F)); /* 57344 */
    const uint32_t number = choose(rest == 0x7f800000, 0x7c, finite);

    return (uint8_t)((bits >> 24 & 0x80) |
                     choose(rest > 0x7f800000, 0x7e | (rest >> 21 & 3), number));
}
