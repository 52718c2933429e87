/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, mapped: every member but the root copies its block into its in-slots, chunk by chunk; the
 * root copies them out. A member goes on until its ring of slots is full, and may return before the
 * root has read. Cost: a pipeline of hand-overs, n * bytes copied by the root.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static void take(struct schedule *sched, const struct request *req, uint32_t chunk,
                 struct part piece)
{
    for (int i = 1; i < sched->mates; i++) {
        const int mate = (sched->self + i) % sched->mates;

        staging_await(sched, mate, WORD_IN_READY, chunk);
        schedule_copy(sched, place_after(mate_out_block(req, mate), piece.offset),
                      place_staged_in(mate, chunk, 0), piece.bytes);
    }
    staging_post(sched, WORD_IN_USED, chunk);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_chunk_bytes(req->bytes);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const bool root = sched->self == req->root;

    if (root) {
        schedule_copy(sched, mate_out_block(req, sched->self), req->in, req->bytes);
        schedule_meet_all(sched);
    } else {
        staging_abstain(sched, WORD_IN_USED, first, chunks);
    }
    for (uint32_t k = 0; k < chunks; k++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, each, k);

        if (root)
            take(sched, req, first + k, piece);
        else
            staging_give(sched, req->in, first + k, piece);
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t each = staging_chunk_bytes(bytes);

    return (struct cost){.hand_overs = pieces_in(bytes, each),
                         .mapped_bytes = layout->size * bytes + min_u64(bytes, each)};
}

const struct algorithm gather_mapped_algorithm = {
    "gather_mapped", OPERATION_GATHER, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
