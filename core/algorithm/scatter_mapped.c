/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, mapped: each of the root's in-slots holds a piece for every other member, who copies its
 * own out. The root goes on until its ring of slots is full, and may return before anyone has read.
 * Cost: a pipeline of hand-overs, n * bytes copied by the root.
 */
#include "algorithm/algorithm.h"
#include "algorithm/blocks_in.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_part_bytes(sched->mates);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const bool root = sched->self == req->root;

    if (root)
        schedule_copy(sched, req->out, mate_in_block(req, sched->self), req->bytes);
    else
        schedule_meet(sched, req->root);
    for (uint32_t k = 0; k < chunks; k++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, each, k);

        if (root) {
            blocks_in(sched, req, each, first + k, piece);
        } else {
            staging_await(sched, req->root, WORD_IN_READY, first + k);
            schedule_copy(
                sched, place_after(req->out, piece.offset),
                place_staged_in(req->root, first + k, staging_part(each, req->root, sched->self)),
                piece.bytes);
            staging_post(sched, WORD_IN_USED, first + k);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t each = staging_part_bytes(layout->size);

    return (struct cost){.hand_overs = pieces_in(bytes, each),
                         .mapped_bytes = layout->size * bytes + min_u64(bytes, each)};
}

const struct algorithm scatter_mapped_algorithm = {
    "scatter_mapped", OPERATION_SCATTER, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
