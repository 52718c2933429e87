/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, staged in one phase: every member copies its vector to its staging and reduces all
 * members' in rank order, so that all compute the same bits.
 * Cost: one hand-over, n * bytes read; wins while a hand-over costs more than reducing everything.
 */
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                   struct part piece)
{
    staging_reduce(sched, s, chunk, piece, place_after(s->req->out, piece.offset), s->req->in);
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct staging s = staging_of(sched, req, req->bytes, MAPPED_CHUNK_MAX);

    staging_goes_both_ways(sched, &s);
    staging_pipeline(sched, &s, staging_give, reduce, NULL);
}

COST(.hand_overs = pieces_in(bytes, MAPPED_CHUNK_MAX), .mapped_bytes = n * bytes,
     .reduced_bytes = (n - 1) * bytes)
ALGORITHM(all_reduce_staged, ALL_REDUCE, MAPPED, .most = THRESHOLD_STAGED_ONE_PHASE_MAX,
          .fits = staging_takes_one_phase, .emit = emit, .cost = cost);
