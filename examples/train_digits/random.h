/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers that are a function of what they are for. A stream is named by the seed, its
 * purpose and two numbers (an epoch, a sample), so a rank draws the same numbers for a sample
 * whichever rank it is and whatever it drew before: that is what makes a training on four ranks
 * comparable with one on a single rank. The generator is SplitMix64 (Steele, Lea, Flood 2014).
 */
#ifndef TRAIN_DIGITS_RANDOM_H
#define TRAIN_DIGITS_RANDOM_H

#include <stdint.h>

enum random_purpose { RANDOM_WEIGHTS = 1, RANDOM_ORDER, RANDOM_DROPOUT };

struct random {
    uint64_t state;
};

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t random_next(struct random *r)
{
    return random_mix(r->state += UINT64_C(0x9e3779b97f4a7c15));
}

static inline struct random random_for(uint64_t seed, enum random_purpose purpose, uint64_t a,
                                       uint64_t b)
{
    const uint64_t names[] = {purpose, a, b};
    struct random r = {seed};

    for (int i = 0; i < 3; i++)
        r.state = random_next(&r) ^ names[i];
    return r;
}

/** Uniform in [0, 1). */
static inline float random_unit(struct random *r)
{
    return (float)(random_next(r) >> 40) * 0x1p-24f;
}

/** Uniform in 0 .. bound-1, bound > 0; biased by less than bound/2^32. */
static inline uint32_t random_below(struct random *r, uint32_t bound)
{
    return (uint32_t)((random_next(r) >> 32) * bound >> 32);
}

#endif
