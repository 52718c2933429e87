/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, binomial tree: each member gets the blocks of its subtree in one message, in the order of the
 * members counted from the root, and hands on what is its children's. Cost: log2(n) * alpha + (n-1) *
 * bytes * (beta + a copy); wins for short blocks of many members, since the root sends log2(n)
 * messages instead of n-1. Where members outnumber their CPUs, it does from 4 members on.
 */
#include "algorithm/binomial.h"

/* The subtree's blocks, mine first; the root leaves its own where it is. */
static void obtain(struct schedule *sched, const struct request *req, int v, int64_t distance,
                   struct place blocks)
{
    const uint64_t members = binomial_members(sched, v, distance);

    if (v) {
        schedule_recv(sched, binomial_rank(sched, req, v - distance), blocks, members * req->bytes);
        schedule_fence(sched);
        return;
    }
    for (int i = 1; i < sched->size; i++)
        schedule_copy(sched, place_after(blocks, (uint64_t)i * req->bytes),
                      place_in_block(binomial_rank(sched, req, i), 0), req->bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const int v = binomial_index(sched, req);
    const int64_t distance = binomial_distance(sched, v);
    const uint64_t members = binomial_members(sched, v, distance);
    const struct place blocks =
        members > 1 ? schedule_scratch(sched, members * req->bytes) : req->out;

    obtain(sched, req, v, distance, blocks);
    for (int64_t d = distance / 2; d >= 1; d /= 2)
        if (v + d < sched->size)
            schedule_send(sched, binomial_rank(sched, req, v + d),
                          place_after(blocks, (uint64_t)d * req->bytes),
                          binomial_members(sched, v + d, d) * req->bytes);
    schedule_copy(sched, req->out, v ? blocks : place_in_block(sched->rank, 0), req->bytes);
    schedule_fence(sched);
}

COST(.messages = log2_ceil(n), .message_bytes = (n - 1) * bytes, .mapped_bytes = (n - 1) * bytes)
ALGORITHM(scatter_binomial, SCATTER, MESSAGES, .flags = ALGORITHM_NEEDS_EQUAL_BLOCKS,
          .members = {.least = TREE_MEMBERS_MIN}, .least_crowded = CROWDED_MEMBERS_MIN,
          .most = THRESHOLD_SCATTER_BINOMIAL_MAX, .emit = emit, .cost = cost);
