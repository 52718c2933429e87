/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, direct: each member sends each block to the block's owner. The owner reduces the
 * blocks of all members in rank order, in segments, so that the scratch stays small. Cost: alpha +
 * (n-1) * bytes * (beta + gamma), which no other algorithm sends less than, in n-1 messages a
 * segment. Invariant: while segment k is reduced, k+1 is on its way into the other half of the
 * scratch.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"
#include "algorithm/parts.h"

struct halves {
    struct place scratch[2];
    uint64_t each;
};

static struct part segment_of(const struct request *req, int block, uint64_t k)
{
    return piece_of((struct part){0, in_block_bytes(req, block)}, DIRECT_SEGMENT_BYTES, k);
}

/* The first segment is exchanged also when it is empty: a member that sees other sizes is found. */
static void exchange(struct schedule *sched, const struct request *req, const struct halves *h,
                     uint64_t k)
{
    const struct part mine = segment_of(req, sched->rank, k);

    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step), to = direct_to(sched, step);
        const struct part theirs = segment_of(req, to, k);

        if (mine.bytes || k == 0)
            schedule_recv(sched, from, direct_slot(sched, h->scratch[k % 2], h->each, from),
                          mine.bytes);
        if (theirs.bytes || k == 0)
            schedule_send(sched, to, place_in_block(to, theirs.offset), theirs.bytes);
    }
}

static void emit(struct schedule *sched, const struct request *req)
{
    const uint64_t own = in_block_bytes(req, sched->rank);
    struct halves h = {.each = round_up(min_u64(own, DIRECT_SEGMENT_BYTES), PART_ALIGN)};
    const uint64_t segments =
        max_u64(1, pieces_in(longest_in_block(req, sched->size), DIRECT_SEGMENT_BYTES));

    for (int i = 0; i < 2; i++)
        h.scratch[i] = schedule_scratch(sched, (uint64_t)(sched->size - 1) * h.each);
    exchange(sched, req, &h, 0);
    for (uint64_t k = 0; k < segments; k++) {
        const struct part piece = segment_of(req, sched->rank, k);
        const struct place to = place_after(req->out, piece.offset);

        schedule_fence(sched);
        if (k + 1 < segments)
            exchange(sched, req, &h, k + 1);
        schedule_reduce_all(sched, to, place_in_block(sched->rank, piece.offset), h.scratch[k % 2],
                            (uint32_t)h.each, piece.bytes);
        if (req->finish)
            schedule_finish(sched, to, piece.bytes);
    }
    schedule_fence(sched);
}

COST(.messages = 1, .at_once = 2 * (n - 2), .message_bytes = (n - 1) * bytes,
     .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_scatter_direct, REDUCE_SCATTER, MESSAGES, .emit = emit, .cost = cost);
