/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, mapped: every member but the root copies its block into its in-window, chunk by chunk; the
 * root copies them out. A member goes on until its window is full, and may return before the
 * root has read. Cost: a pipeline of hand-overs, n * bytes copied by the root.
 */
#include "algorithm/staging.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct staging s =
        staging_of(sched, req, req->bytes, staging_chunk_bytes(sched->thresholds, req->bytes));

    staging_goes_one_way(sched, &s);
    sched->decider = req->root;
    if (sched->self == req->root) {
        schedule_copy(sched, local_block(req, req->out, sched->self), req->in, req->bytes);
        schedule_meet_all(sched);
        staging_each(sched, &s, staging_take_blocks);
        if (s.chunks) /* the last one too: a composed gather goes on with messages */
            staging_post(sched, WORD_IN_USED, chunk_after(s.first, s.chunks - 1));
    } else {
        staging_abstain(sched, WORD_IN_USED, s.first, s.chunks);
        staging_each(sched, &s, staging_give);
    }
}

COST(.hand_overs = pieces_in(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .mapped_bytes = n * bytes + min_u64(bytes, staging_chunk_bytes(layout->thresholds, bytes)))
ALGORITHM(gather_mapped, GATHER, MAPPED, .emit = emit, .cost = cost);
