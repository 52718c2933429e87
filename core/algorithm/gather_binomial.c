/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, binomial tree: each member puts the blocks of its subtree together in scratch, in the order
 * of the members counted from the root, and hands them to its parent in one message. Cost: log2(n) *
 * alpha + (n-1) * bytes * (beta + a copy); wins for short blocks of many members, since the root
 * takes log2(n) messages instead of n-1.
 */
#include "algorithm/binomial.h"

/* Collects the blocks of the children, and puts my own before them. */
static void collect(struct schedule *sched, const struct request *req, int v, int64_t distance,
                    struct place blocks)
{
    for (int64_t d = 1; d < distance && v + d < sched->size; d *= 2)
        schedule_recv(sched, binomial_rank(sched, req, v + d),
                      place_after(blocks, (uint64_t)d * req->bytes),
                      binomial_members(sched, v + d, d) * req->bytes);
    if (v)
        schedule_copy(sched, blocks, req->in, req->bytes);
    schedule_fence(sched);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const int v = binomial_index(sched, req);
    const int64_t distance = binomial_distance(sched, v);
    const uint64_t members = binomial_members(sched, v, distance);
    struct place blocks = req->in; /* a leaf's own is all that it hands on */

    if (members > 1) {
        blocks = schedule_scratch(sched, members * req->bytes);
        collect(sched, req, v, distance, blocks);
    }
    if (v) {
        schedule_send(sched, binomial_rank(sched, req, v - distance), blocks, members * req->bytes);
        schedule_fence(sched);
    } else {
        schedule_copy(sched, place_out_block(sched->rank, 0), req->in, req->bytes);
        for (int i = 1; i < sched->size; i++)
            schedule_copy(sched, place_out_block(binomial_rank(sched, req, i), 0),
                          place_after(blocks, (uint64_t)i * req->bytes), req->bytes);
    }
}

COST(.messages = log2_ceil(n), .message_bytes = (n - 1) * bytes, .mapped_bytes = (n - 1) * bytes)
ALGORITHM(gather_binomial, GATHER, MESSAGES, .flags = ALGORITHM_NEEDS_EQUAL_BLOCKS,
          .members = {.least = TREE_MEMBERS_MIN}, .most = THRESHOLD_GATHER_BINOMIAL_MAX,
          .emit = emit, .cost = cost);
