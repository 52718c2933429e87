/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, in parts: each member reduces its n-th of the vector for all, in rank order, and sends it
 * to the root; in segments, so that the scratch stays small. Cost: 2 alpha and 3 (n-1) messages at the
 * root, 2 (n-1)/n * bytes * beta + (n-1)/n * bytes * gamma; wins for long vectors.
 * Invariant: the results of a segment are on their way while the next segment is exchanged, so the
 * scratch of two segments is in use.
 */
#include "algorithm/segments.h"

static void run(struct schedule *sched, const struct request *req, const struct segment *s)
{
    const struct part mine = segment_part(sched, s, sched->rank);
    const bool root = sched->rank == req->root;
    /* The last slot: the result, on its way to the root. */
    const struct place to = root ? place_after(req->out, mine.offset)
                                 : place_after(s->scratch, (uint64_t)(sched->size - 1) * s->each);

    segment_exchange(sched, req, s);
    if (root)
        segment_collect(sched, req, s);
    segment_reduce(sched, req, s, to);
    if (!root && mine.bytes)
        schedule_send(sched, req->root, to, mine.bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    segments_emit(sched, req, run);
}

COST(.messages = 2, .at_once = 3 * (n - 2), .message_bytes = 2 * (bytes - bytes / n),
     .reduced_bytes = bytes - bytes / n)
ALGORITHM(reduce_parts, REDUCE, MESSAGES, .members = {.least = 3},
          .least = THRESHOLD_REDUCE_PARTS_MIN, .emit = emit, .cost = cost);
