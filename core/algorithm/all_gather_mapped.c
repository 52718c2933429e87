/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, mapped: every member copies its block into its in-window, chunk by chunk, and copies
 * the others' out one chunk behind. Cost: a pipeline of hand-overs, (n+1) * bytes copied.
 */
#include "algorithm/staging.h"

static void give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                 struct part piece)
{
    staging_give(sched, s, chunk, piece);
    if (chunk.page == s->first.page)
        schedule_copy(sched, place_out_block(sched->self, 0), s->req->in, s->req->bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct staging s =
        staging_of(sched, req, req->bytes, staging_chunk_bytes(sched->thresholds, req->bytes));

    staging_goes_both_ways(sched, &s);
    staging_pipeline(sched, &s, give, staging_take_blocks, NULL);
}

COST(.hand_overs = pieces_in(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .mapped_bytes = (n + 1) * bytes)
ALGORITHM(all_gather_mapped, ALL_GATHER, MAPPED, .emit = emit, .cost = cost);
