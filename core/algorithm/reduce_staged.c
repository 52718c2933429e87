/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, staged: every member but the root copies its vector into its in-window, chunk by chunk; the
 * root reduces them with its own in rank order. A member goes on until its window is full,
 * and may return before the root has read. Cost: a pipeline of hand-overs, (n-1) * bytes reduced by
 * the root; wins for two members, and for short vectors.
 */
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                   struct part piece)
{
    staging_reduce(sched, s, chunk, piece, place_after(s->req->out, piece.offset), s->req->in);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct staging s =
        staging_of(sched, req, req->bytes, staging_chunk_bytes(sched->thresholds, req->bytes));

    sched->decider = req->root;
    if (sched->self == req->root) {
        schedule_meet_all(sched);
        staging_each(sched, &s, reduce);
    } else {
        staging_abstain(sched, WORD_IN_USED, s.first, s.chunks);
        staging_each(sched, &s, staging_give);
    }
}

/* The root of two reads the other's vector once in either way. */
static bool fits(const struct thresholds *thresholds, int members, uint64_t bytes)
{
    return members <= 2 || staging_takes_one_phase(thresholds, members, bytes);
}

COST(.hand_overs = pieces_in(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .mapped_bytes = (n - 1) * bytes +
                     min_u64(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_staged, REDUCE, MAPPED, .most = THRESHOLD_STAGED_ONE_PHASE_MAX, .fits = fits,
          .emit = emit, .cost = cost);
