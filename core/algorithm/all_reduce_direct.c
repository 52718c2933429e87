/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, direct: each member reduces its n-th of the vector for all, all operands at once, and
 * sends it to everybody; in segments. The one over messages that keeps the fixed order: no partial
 * result is rounded on its way. Cost: 2 alpha and 4 (n-1) messages a member, 2 (n-1)/n * bytes * beta
 * + (n-1)/n * bytes * gamma.
 * Invariant: results come in only when the operands that lay there have left, after the exchange.
 */
#include "algorithm/direct.h"
#include "algorithm/segments.h"

static void run(struct schedule *sched, const struct request *req, const struct segment *s)
{
    const struct part mine = segment_part(sched, s, sched->rank);
    const struct place to = place_after(req->out, mine.offset);

    segment_exchange(sched, req, s);
    segment_collect(sched, req, s);
    segment_reduce(sched, req, s, to);
    for (int step = 1; step < sched->size && mine.bytes; step++)
        schedule_send(sched, direct_to(sched, step), to, mine.bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    segments_emit(sched, req, run);
}

COST(.messages = 2, .at_once = 4 * (n - 2), .message_bytes = 2 * (bytes - bytes / n),
     .reduced_bytes = bytes - bytes / n)
ALGORITHM(all_reduce_direct, ALL_REDUCE, MESSAGES, .emit = emit, .cost = cost);
