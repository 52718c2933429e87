/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, mapped: the root copies chunks into its in-slots, which serve as a ring; the others
 * copy them out. The root goes on until the ring is full, and may return before anyone has read.
 * Cost: one hand-over and a pipeline of chunks, 2 * bytes copied.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_chunk_bytes(req->bytes);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const bool root = sched->self == req->root;

    if (!root)
        schedule_meet(sched, req->root);
    for (uint32_t k = 0; k < chunks; k++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, each, k);
        const struct place slot = place_staged_in(req->root, first + k, 0);
        const struct place mine = place_after(req->out, piece.offset);

        if (root) {
            staging_claim(sched, WORD_IN_USED, first + k);
            schedule_copy(sched, slot, mine, piece.bytes);
            staging_post(sched, WORD_IN_READY, first + k);
        } else {
            staging_await(sched, req->root, WORD_IN_READY, first + k);
            schedule_copy(sched, mine, slot, piece.bytes);
            staging_post(sched, WORD_IN_USED, first + k);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    return (struct cost){.hand_overs = 1 + pieces_in(bytes, staging_chunk_bytes(bytes)),
                         .mapped_bytes = bytes + min_u64(bytes, staging_chunk_bytes(bytes))};
}

const struct algorithm broadcast_mapped_algorithm = {
    "broadcast_mapped", OPERATION_BROADCAST, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
