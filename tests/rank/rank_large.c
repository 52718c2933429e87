/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of more than 2^31 elements, on two ranks; scripts/test --all runs it by `tutti run`, where
 * there is memory for it. Every byte is checked, and depends on the high bits of its index, so that a
 * count or an offset of 32 bits anywhere on the way shows.
 */
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "harness/rank.h"

enum { BLOCK = 4096 };

/* No multiple of anything that algorithms cut by. TUTTI_TEST_ELEMENTS is for machines with memory
 * for more. */
static uint64_t elements(void)
{
    const char *given = getenv("TUTTI_TEST_ELEMENTS");

    return given ? strtoull(given, NULL, 0) : (UINT64_C(1) << 31) + 12345;
}

/* What `rank` has in its memory's block, or, for size 2, what the sum over both has there. */
static void make_block(uint8_t ret_block[BLOCK], uint64_t number, int rank, int size)
{
    const uint64_t mixed = random_mix(number);

    for (int i = 0; i < BLOCK; i++)
        ret_block[i] = (uint8_t)((uint64_t)size * (mixed + (uint64_t)i * 7) + (uint64_t)rank * 31);
}

static void fill(uint8_t *memory, uint64_t n, int rank)
{
    uint8_t block[BLOCK];

    for (uint64_t at = 0; at < n; at += BLOCK) {
        make_block(block, at / BLOCK, rank, 1);
        memcpy(memory + at, block, n - at < BLOCK ? n - at : BLOCK);
    }
}

/* Where the first block begins that is wrong, or n. */
static uint64_t first_wrong(const uint8_t *memory, uint64_t n, bool sum)
{
    uint8_t block[BLOCK];

    for (uint64_t at = 0; at < n; at += BLOCK) {
        make_block(block, at / BLOCK, sum, sum ? 2 : 1);
        if (memcmp(memory + at, block, n - at < BLOCK ? n - at : BLOCK) != 0)
            return at;
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

    /* Fewer elements, as many bytes. */
    tutti_tensor wide = tutti_tensor_1d(memory, TUTTI_F64, &shape, (int64_t)(n / 8));
    fill(memory, n, rank);
    require_ok(tutti_broadcast(world, &wide, 0, NULL, NULL));
    check_eq((int64_t)first_wrong(memory, n / 8 * 8, false), (int64_t)(n / 8 * 8));
    shape = (int64_t)n;

    fill(memory, n, rank);
    require_ok(rank == 0 ? tutti_send(world, &t, 1, 1, NULL)
                         : tutti_recv(world, &t, 0, 1, NULL, NULL));
    check_eq((int64_t)first_wrong(memory, n, false), (int64_t)n);
    free(memory);
    check_ok(tutti_group_destroy(world));
}
