/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that are the same on every rank and in the test that started them (SplitMix64). */
#pragma once

#include <stdint.h>

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t random_next(uint64_t *state)
{
    return random_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 .. below-1 */
static inline unsigned random_below(uint64_t *state, unsigned below)
{
    return (unsigned)((random_next(state) >> 32) * below >> 32);
}
