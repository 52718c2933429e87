/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversions of floats of eight bits, for kernels.c, in integer arithmetic that vectorises.
 *
 * e4m3fn has no infinity, and one NaN of each sign; e5m2 is the upper half of an f16. Narrowing
 * rounds to nearest even and saturates: what is larger than the largest finite number (448, 57344)
 * becomes that number. An infinity stays one in e5m2 and saturates in e4m3fn; a NaN stays one.
 */
#ifndef TUTTI_REDUCE_KERNELS_EIGHT_H
#define TUTTI_REDUCE_KERNELS_EIGHT_H

#include "reduce/kernels_half.h"

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

#endif
