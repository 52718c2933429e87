/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs and messages that are longer than caches or windows. They begin at any element. */
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

static void fill_words(uint64_t *at, int64_t count, int rank)
{
    for (int64_t i = 0; i < count; i++)
        at[i] = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)rank;
}

static void check_words(const uint64_t *at, int64_t count, int rank)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < count; i++)
        wrong += at[i] != (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)rank;
    check_eq(wrong, 0);
}

RANK_CASE(blocks_that_no_cache_holds_arrive)
{
    enum { COUNT = (5 << 20) / 8 + 3 };
    const size_t words = (size_t)size * COUNT + 8;
    tutti_group *world = rank_init(NULL);
    uint64_t *in = malloc(8 * words), *out = malloc(8 * words);
    int64_t shape, whole;

    require(in && out);
    tutti_tensor one = tutti_tensor_1d(in + 1, TUTTI_I64, &shape, COUNT);
    tutti_tensor all = tutti_tensor_1d(out + 3, TUTTI_I64, &whole, (int64_t)size * COUNT);
    tutti_tensor from_all = tutti_tensor_1d(in + 1, TUTTI_I64, &whole, (int64_t)size * COUNT);

    fill_words(in + 1, COUNT, rank);
    require_ok(tutti_all_gather(world, &one, &all, NULL, NULL));
    for (int r = 0; r < size; r++)
        check_words(out + 3 + (size_t)r * COUNT, COUNT, r);

    for (int r = 0; r < size; r++)
        fill_words(in + 1 + (size_t)r * COUNT, COUNT, 10 * rank + r);
    require_ok(tutti_all_to_all(world, &from_all, &all, NULL, NULL));
    for (int r = 0; r < size; r++)
        check_words(out + 3 + (size_t)r * COUNT, COUNT, 10 * r + rank);

    if (rank == 1)
        fill_words(out + 3, (int64_t)size * COUNT, 7);
    require_ok(tutti_broadcast(world, &all, 1, NULL, NULL));
    check_words(out + 3, (int64_t)size * COUNT, 7);
    free(in);
    free(out);
    check_ok(tutti_group_destroy(world));
}

/* One after the other: a block of each rank to the root, from it, a vector from it, and blocks from all to all. */
static void pass_blocks(tutti_group *world, uint64_t *in, uint64_t *out, int64_t count, int round)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    const int root = round % size, first = 100 * round;
    const int64_t total = size * count;
    int64_t shape, whole;
    tutti_tensor my_block = tutti_tensor_1d(in + 1, TUTTI_I64, &shape, count);
    tutti_tensor taken = tutti_tensor_1d(out + 3, TUTTI_I64, &shape, count);
    tutti_tensor all_in = tutti_tensor_1d(in + 1, TUTTI_I64, &whole, total);
    tutti_tensor all_out = tutti_tensor_1d(out + 3, TUTTI_I64, &whole, total);

    fill_words(in + 1, count, first + rank);
    require_ok(tutti_gather(world, &my_block, rank == root ? &all_out : NULL, root, NULL, NULL));
    for (int r = 0; r < size && rank == root; r++)
        check_words(out + 3 + r * count, count, first + r);

    for (int r = 0; r < size && rank == root; r++)
        fill_words(in + 1 + r * count, count, first + 10 + r);
    require_ok(tutti_scatter(world, rank == root ? &all_in : NULL, &taken, root, NULL, NULL));
    check_words(out + 3, count, first + 10 + rank);

    if (rank == root)
        fill_words(out + 3, count, first + 20);
    require_ok(tutti_broadcast(world, &taken, root, NULL, NULL));
    check_words(out + 3, count, first + 20);

    fill_words(in + 1, count, first + 30 + rank);
    require_ok(tutti_all_gather(world, &my_block, &all_out, NULL, NULL));
    for (int r = 0; r < size; r++)
        check_words(out + 3 + r * count, count, first + 30 + r);
}

/* A rank that only writes gets two laps of its window ahead of one that comes late, and the next call goes on where the last
 * one ended. */
RANK_CASE(blocks_of_changing_lengths_pass_through_the_windows)
{
    static const int64_t bytes[] = {3 << 20, 900 << 10, 2 << 20,  40 << 10,
                                    5 << 20, 1 << 20,   260 << 10};
    const size_t words = (size_t)size * (5 << 20) / 8 + 100;
    tutti_group *world = rank_init(NULL);
    uint64_t *in = malloc(8 * words), *out = malloc(8 * words);

    require(in && out);
    for (int round = 0; round < 14; round++) {
        if (rank == (round + 1) % size)
            rank_sleep_ms(3);
        pass_blocks(world, in, out, bytes[round % 7] / 8 + round, round);
    }
    free(in);
    free(out);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(messages_that_no_cache_holds_arrive)
{
    enum { COUNT = (18 << 20) / 8 + 5 };
    tutti_group *world = rank_init(NULL);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t *out = malloc(8 * (COUNT + 1)), *in = malloc(8 * (COUNT + 3));
    int64_t shape;
    tutti_work *work;

    require(in && out);
    tutti_tensor sent = tutti_tensor_1d(out + 1, TUTTI_I64, &shape, COUNT);
    tutti_tensor received = tutti_tensor_1d(in + 3, TUTTI_I64, &shape, COUNT);

    fill_words(out + 1, COUNT, rank);
    for (int i = 0; i < 2; i++) {
        memset(in, 0, 8 * (COUNT + 3));
        require_ok(tutti_irecv(world, &received, before, 1, NULL, &work));
        require_ok(tutti_send(world, &sent, next, 1, NULL));
        require_ok(rank_end_works(&work, 1, TUTTI_OK));
        check_words(in + 3, COUNT, before);
    }
    free(in);
    free(out);
    check_ok(tutti_group_destroy(world));
}
