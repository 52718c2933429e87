/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, staged in parts: each member reduces its n-th of the vector into its out-window, from where
 * the root copies it; the root's own goes where it belongs. A member goes on until its window
 * is full, and may return before the root has read. Cost: two hand-overs and a pipeline of chunks, about
 * 3 (n-1)/n * bytes copied or read by the root, (n-1)/n reduced; wins for long vectors and three or
 * more members, since the root of reduce_staged reads (n-1) * bytes.
 */
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                   struct part piece)
{
    if (sched->self == s->req->root) {
        staging_reduce(sched, s, chunk, piece, place_after(s->req->out, piece.offset), s->req->in);
        return;
    }
    staging_claim(sched, WORD_OUT_USED, chunk);
    staging_reduce(sched, s, chunk, piece, place_staged_out(sched->self, chunk, 0), s->req->in);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct staging s = staged_parts_of(sched, req);
    const bool root = sched->self == req->root;

    sched->decider = req->root;
    if (!root)
        staging_abstain(sched, WORD_OUT_USED, s.first, s.chunks);
    staging_pipeline(sched, &s, staged_parts_give, reduce, root ? staged_parts_collect : NULL);
}

COST(.hand_overs = 1 + pieces_in(bytes - bytes / n, MAPPED_CHUNK_MAX),
     .mapped_bytes = 3 * (bytes - bytes / n), .reduced_bytes = bytes - bytes / n)
ALGORITHM(reduce_staged_parts, REDUCE, MAPPED, .emit = emit, .cost = cost);
