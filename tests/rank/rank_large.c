/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of more than 2^31 elements, on two ranks; scripts/test --all runs it by `tutti run`, where
 * there is memory for it. Every byte is checked, and depends on the high bits of its index, so that a
 * count or an offset of 32 bits anywhere on the way shows.
 */
#include <stdlib.h>

#include "harness/rank.h"

/* No multiple of anything that algorithms cut by. TUTTI_TEST_ELEMENTS is for who has memory for
 * more. */
static uint64_t elements(void)
{
    const char *given = getenv("TUTTI_TEST_ELEMENTS");

    return given ? strtoull(given, NULL, 0) : (UINT64_C(1) << 31) + 12345;
}

static uint8_t value_at(uint64_t i, int rank)
{
    uint64_t x = i ^ i >> 8 ^ i >> 16 ^ i >> 24 ^ i >> 32;

    return (uint8_t)(x * 7 + (uint64_t)rank * 31);
}

static void fill(uint8_t *memory, uint64_t n, int rank)
{
    for (uint64_t i = 0; i < n; i++)
        memory[i] = value_at(i, rank);
}

/* The first wrong index, or n. */
static uint64_t first_wrong(const uint8_t *memory, uint64_t n, bool sum)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t right = (uint8_t)(value_at(i, 0) + (sum ? value_at(i, 1) : 0));

        if (memory[i] != right)
            return i;
    }
    return n;
}

RANK_CASE(more_than_2_to_31_elements)
{
    const uint64_t n = elements();
    tutti_group *world = rank_init(NULL);
    uint8_t *memory = malloc(n);
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(memory, TUTTI_U8, &shape, (int64_t)n);

    require(memory != NULL);
    require(size == 2);
    fill(memory, n, rank);
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    check_eq((int64_t)first_wrong(memory, n, true), (int64_t)n);

    fill(memory, n, rank);
    require_ok(tutti_broadcast(world, &t, 0, NULL, NULL));
    check_eq((int64_t)first_wrong(memory, n, false), (int64_t)n);

    fill(memory, n, rank);
    require_ok(rank == 0 ? tutti_send(world, &t, 1, 1, NULL)
                         : tutti_recv(world, &t, 0, 1, NULL, NULL));
    check_eq((int64_t)first_wrong(memory, n, false), (int64_t)n);
    free(memory);
    check_ok(tutti_group_destroy(world));
}
