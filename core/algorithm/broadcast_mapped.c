/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, mapped: the root copies chunks into its in-window, which serve as a ring; the others
 * copy them out. The root goes on until the ring is full, and may return before anyone has read.
 * Cost: one hand-over and a pipeline of chunks, 2 * bytes copied.
 */
#include "algorithm/staging.h"

static void give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                 struct part piece)
{
    staging_put(sched, s->req->out, chunk, piece);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct staging s =
        staging_of(sched, req, req->bytes, staging_chunk_bytes(sched->thresholds, req->bytes));

    staging_goes_one_way(sched, &s);
    sched->decider = (req->root + 1) % sched->local_size;
    if (sched->self == req->root) {
        staging_each(sched, &s, give);
    } else {
        schedule_meet(sched, req->root);
        staging_each(sched, &s, staging_take_roots);
    }
}

COST(.hand_overs = 1 + pieces_in(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .mapped_bytes = bytes + min_u64(bytes, staging_chunk_bytes(layout->thresholds, bytes)))
ALGORITHM(broadcast_mapped, BROADCAST, MAPPED, .emit = emit, .cost = cost);
