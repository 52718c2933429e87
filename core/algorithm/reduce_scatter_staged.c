/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, staged: each in-window holds a piece of the block of every other member; everybody
 * reduces its own block over all members in rank order, one chunk behind. Cost: a pipeline of
 * hand-overs, (n-1) * bytes copied, (n-1) * bytes reduced.
 */
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                   struct part piece)
{
    staging_reduce(sched, s, chunk, piece, place_after(s->req->out, piece.offset),
                   place_in_block(sched->self, 0));
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct staging s = staging_of(sched, req, req->bytes, 0);

    staging_goes_both_ways(sched, &s);
    staging_pipeline(sched, &s, staging_give_blocks, reduce, NULL);
}

COST(.hand_overs = pieces_in(bytes, staging_piece_max(n - 1)), .mapped_bytes = 2 * (n - 1) * bytes,
     .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_scatter_staged, REDUCE_SCATTER, MAPPED, .emit = emit, .cost = cost);
