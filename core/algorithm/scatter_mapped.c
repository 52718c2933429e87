/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, mapped: each of the root's in-window holds a piece for every other member. Each member
 * copies its own piece out. The root goes on until its window is full, and may return before
 * anyone has read. Cost: a pipeline of hand-overs, n * bytes copied by the root.
 */
#include "algorithm/staging.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct staging s = staging_of(sched, req, req->bytes, 0);

    staging_goes_one_way(sched, &s);
    sched->decider = (req->root + 1) % sched->local_size;
    if (sched->self == req->root) {
        schedule_copy(sched, req->out, local_block(req, req->in, sched->self), req->bytes);
        staging_each(sched, &s, staging_give_blocks);
    } else {
        schedule_meet(sched, req->root);
        staging_each(sched, &s, staging_take_roots);
    }
}

COST(.hand_overs = pieces_in(bytes, staging_piece_max(n - 1)),
     .mapped_bytes = n * bytes + min_u64(bytes, staging_piece_max(n - 1)))
ALGORITHM(scatter_mapped, SCATTER, MAPPED, .emit = emit, .cost = cost);
