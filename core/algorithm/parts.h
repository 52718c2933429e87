/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting a vector into parts. Parts begin on multiples of 64 bytes, so that they hold whole
 * elements and no two members write to one cache line; the last ones of a short vector are empty.
 */
#pragma once

#include <stdint.h>

enum { PART_ALIGN = 64 };

struct part {
    uint64_t offset, bytes;
};

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Parts [first, last) of `parts` nearly equal ones of a vector. */
static inline struct part parts_between(uint64_t bytes, int parts, int first, int last)
{
    const uint64_t lines = (bytes + PART_ALIGN - 1) / PART_ALIGN;
    const uint64_t each = lines / (uint64_t)parts, longer = lines % (uint64_t)parts;
    const uint64_t f = (uint64_t)first, l = (uint64_t)last;
    const uint64_t begin = min_u64((f * each + min_u64(f, longer)) * PART_ALIGN, bytes);
    const uint64_t end = min_u64((l * each + min_u64(l, longer)) * PART_ALIGN, bytes);

    return (struct part){begin, end - begin};
}

static inline struct part part_of(uint64_t bytes, int parts, int index)
{
    return parts_between(bytes, parts, index, index + 1);
}

/* Piece `index` of a part that is cut every `each` bytes; empty past its end. */
static inline struct part piece_of(struct part part, uint64_t each, uint64_t index)
{
    const uint64_t begin = min_u64(index * each, part.bytes);

    return (struct part){part.offset + begin, min_u64(part.bytes - begin, each)};
}

static inline uint64_t pieces_in(uint64_t bytes, uint64_t each)
{
    return (bytes + each - 1) / each;
}

/* ceil(log2(n)) */
static inline uint64_t log2_ceil(uint64_t n)
{
    uint64_t steps = 0;

    while ((UINT64_C(1) << steps) < n)
        steps++;
    return steps;
}
