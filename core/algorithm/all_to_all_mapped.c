/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, mapped: each in-window holds a piece for every other member; everybody copies what is
 * meant for it out of all others' one chunk behind. Cost: a pipeline of hand-overs, 2 (n-1) * bytes
 * copied.
 */
#include "algorithm/staging.h"

static void give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                 struct part piece)
{
    staging_give_blocks(sched, s, chunk, piece);
    if (chunk.page == s->first.page)
        schedule_copy(sched, local_block(s->req, s->req->out, sched->self),
                      local_block(s->req, s->req->in, sched->self), s->req->bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct staging s = staging_of(sched, req, req->bytes, 0);

    staging_goes_both_ways(sched, &s);
    staging_pipeline(sched, &s, give, staging_take_blocks, NULL);
}

COST(.hand_overs = pieces_in(bytes, staging_piece_max(n - 1)), .mapped_bytes = 2 * (n - 1) * bytes)
ALGORITHM(all_to_all_mapped, ALL_TO_ALL, MAPPED, .emit = emit, .cost = cost);
