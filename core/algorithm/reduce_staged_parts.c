/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, staged in parts: each member reduces its n-th of the vector into its out-slot, from where
 * the root copies it; the root's own goes where it belongs. A member goes on until its ring of slots
 * is full, and may return before the root has read. Cost: two hand-overs and a pipeline of chunks, about
 * 3 (n-1)/n * bytes copied or read by the root, (n-1)/n reduced; wins for long vectors and three or
 * more members, since the root of reduce_staged reads (n-1) * bytes.
 */
#include "algorithm/staged_parts.h"

#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    if (sched->self == s->req->root) {
        const struct part p = staged_parts_piece(sched, s, sched->self, turn);

        staged_parts_reduce(sched, s, turn, place_after(s->req->out, p.offset));
        return;
    }
    staging_claim(sched, WORD_OUT_USED, chunk);
    staged_parts_reduce(sched, s, turn, place_staged_out(sched->self, chunk, 0));
    staging_post(sched, WORD_OUT_READY, chunk);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct staged_parts s = staged_parts_of(sched, req);
    const bool root = sched->self == req->root;

    if (!root)
        staging_abstain(sched, WORD_OUT_USED, s.first, s.chunks);
    return staged_parts_emit(sched, &s, reduce, root ? staged_parts_collect : NULL);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size, share = bytes - bytes / n;
    const uint64_t chunks = pieces_in(share, MAPPED_SLOT_BYTES);

    return (struct cost){
        .hand_overs = 1 + chunks, .mapped_bytes = 3 * share, .reduced_bytes = share};
}

const struct algorithm reduce_staged_parts_algorithm = {
    "reduce_staged_parts", OPERATION_REDUCE, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
