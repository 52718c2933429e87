/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, staged: every member but the root copies its vector into its in-slots, chunk by chunk; the
 * root reduces them with its own in rank order. A member goes on until its ring of slots is full,
 * and may return before the root has read. Cost: a pipeline of hand-overs, (n-1) * bytes reduced by
 * the root; wins for two members, and for short vectors.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct request *req, uint32_t chunk,
                   struct part piece)
{
    const struct place to = place_after(req->out, piece.offset);

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_mates(sched, to, place_after(req->in, piece.offset), chunk, 0, 0, piece.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
    if (req->finish)
        schedule_finish(sched, to, piece.bytes);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_chunk_bytes(req->bytes);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const bool root = sched->self == req->root;

    if (root) {
        schedule_meet_all(sched);
    } else {
        staging_abstain(sched, WORD_IN_USED, first, chunks);
    }
    for (uint32_t k = 0; k < chunks; k++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, each, k);

        if (root)
            reduce(sched, req, first + k, piece);
        else
            staging_give(sched, req->in, first + k, piece);
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;
    const uint64_t each = staging_chunk_bytes(bytes);

    return (struct cost){.hand_overs = pieces_in(bytes, each),
                         .mapped_bytes = others * bytes + min_u64(bytes, each),
                         .reduced_bytes = others * bytes};
}

const struct algorithm reduce_staged_algorithm = {
    "reduce_staged", OPERATION_REDUCE, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
