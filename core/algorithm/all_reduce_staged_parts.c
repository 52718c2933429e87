/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, staged in parts (halves for two members): each member reduces its n-th of the vector
 * for all and publishes it in its out-window, from where all copy it. Cost: two hand-overs and a
 * pipeline of chunks, about 3 (n-1)/n * bytes copied, (n-1)/n reduced.
 */
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                   struct part piece)
{
    const struct place to = place_after(s->req->out, piece.offset);

    staging_reduce(sched, s, chunk, piece, to, s->req->in);
    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(sched->self, chunk, 0), to, piece.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct staging s = staged_parts_of(sched, req);

    staging_goes_both_ways(sched, &s);
    staging_pipeline(sched, &s, staged_parts_give, reduce, staged_parts_collect);
}

COST(.hand_overs = 1 + pieces_in(bytes - bytes / n, MAPPED_CHUNK_MAX),
     .mapped_bytes = 2 * (bytes - bytes / n) + bytes / n, .reduced_bytes = bytes - bytes / n)
ALGORITHM(all_reduce_staged_parts, ALL_REDUCE, MAPPED, .emit = emit, .cost = cost);
