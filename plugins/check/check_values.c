/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of floating-point numbers, and the hash. Memory may lie at any address. */
#include <stddef.h>
#include <string.h>

#include <tutti/tensor.h>

#include "check.h"

/* An element has `parts` numbers of `bytes`; all exponent bits set is a NaN or an Inf. */
struct format {
    uint32_t dtype;
    uint8_t bytes, parts;
    bool has_inf; /* otherwise only all bits set are a NaN */
    uint64_t exponent, mantissa;
};

static const struct format formats[] = {
    {TUTTI_F16, 2, 1, true, 0x7c00, 0x03ff},
    {TUTTI_BF16, 2, 1, true, 0x7f80, 0x007f},
    {TUTTI_F32, 4, 1, true, 0x7f800000, 0x007fffff},
    {TUTTI_F64, 8, 1, true, UINT64_C(0x7ff0000000000000), UINT64_C(0x000fffffffffffff)},
    {TUTTI_F8E4M3FN, 1, 1, false, 0x78, 0x07},
    {TUTTI_F8E5M2, 1, 1, true, 0x7c, 0x03},
    {TUTTI_C64, 4, 2, true, 0x7f800000, 0x007fffff},
    {TUTTI_C128, 8, 2, true, UINT64_C(0x7ff0000000000000), UINT64_C(0x000fffffffffffff)},
};

static void judge(const struct format *f, uint64_t bits, uint64_t index, struct check_found *found)
{
    const uint64_t mantissa = bits & f->mantissa;

    if (f->has_inf && !mantissa) {
        if (!found->infs++)
            found->first_inf = index;
    } else if (f->has_inf || mantissa == f->mantissa) {
        if (!found->nans++)
            found->first_nan = index;
    }
}

/* A loop for each width, so that most of a tensor is passed over quickly. */
#define LOOK(type)                                                                                 \
    for (uint64_t i = 0; i < count; i++) {                                                         \
        type bits;                                                                                 \
                                                                                                   \
        memcpy(&bits, (const char *)data + i * sizeof bits, sizeof bits);                          \
        if ((bits & (type)f->exponent) == (type)f->exponent)                                       \
            judge(f, bits, i / f->parts, &found);                                                  \
    }

struct check_found check_values(uint32_t dtype, const void *data, uint64_t bytes)
{
    struct check_found found = {0};
    const struct format *f = formats, *end = formats + sizeof formats / sizeof formats[0];

    while (f < end && f->dtype != dtype)
        f++;
    if (f == end || !data)
        return found;

    const uint64_t count = bytes / f->bytes;
    switch (f->bytes) {
    case 1:
        LOOK(uint8_t)
        break;
    case 2:
        LOOK(uint16_t)
        break;
    case 4:
        LOOK(uint32_t)
        break;
    default:
        LOOK(uint64_t)
    }
    return found;
}

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Four lanes, so that one multiplication need not wait for the other. Each step is a bijection of its
 * lane: one changed word changes the hash. */
static void take_full(uint64_t lanes[4], const void *data)
{
    for (int i = 0; i < 4; i++) {
        uint64_t word;

        memcpy(&word, (const char *)data + (size_t)i * sizeof word, sizeof word);
        lanes[i] = (lanes[i] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        lanes[i] ^= lanes[i] >> 29;
    }
}

struct check_hash check_hash_begin(void)
{
    return (struct check_hash){.lanes = {1, 2, 3, 4}};
}

void check_hash_add(struct check_hash *hash, const void *data, uint64_t bytes)
{
    const char *at = data;

    while (bytes) {
        const uint64_t have = hash->bytes % sizeof hash->rest, room = sizeof hash->rest - have;
        const uint64_t n = bytes < room ? bytes : room;

        if (n == sizeof hash->rest) {
            take_full(hash->lanes, at);
        } else {
            memcpy(hash->rest + have, at, n);
            if (n == room)
                take_full(hash->lanes, hash->rest);
        }
        hash->bytes += n;
        at += n;
        bytes -= n;
    }
}

uint64_t check_hash_end(const struct check_hash *hash)
{
    uint64_t first = hash->lanes[0], all = hash->bytes, word;
    size_t left = hash->bytes % sizeof hash->rest;

    for (const unsigned char *at = hash->rest; left; at += sizeof word) {
        const size_t n = left < sizeof word ? left : sizeof word;

        word = 0;
        memcpy(&word, at, n);
        first = mix(first ^ word) + n;
        left -= n;
    }
    for (unsigned i = 0; i < 4; i++)
        all = mix(all ^ mix(i ? hash->lanes[i] : first) ^ i);
    return all;
}
