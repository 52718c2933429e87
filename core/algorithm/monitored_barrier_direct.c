/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitored_barrier, direct: everybody tells the first member and waits for its answer, which comes
 * once all have told it. So the first member knows at its deadline which ranks are missing. Cost: 2
 * alpha and 2 (n-1) messages at the first member.
 */
#include "algorithm/algorithm.h"

static void emit(struct schedule *sched, const struct request *req)
{
    if (sched->rank) {
        schedule_recv(sched, 0, req->out, 0);
        schedule_send(sched, 0, req->in, 0);
    } else {
        for (int rank = 1; rank < sched->size; rank++)
            schedule_recv(sched, rank, req->out, 0);
        schedule_fence(sched);
        for (int rank = 1; rank < sched->size; rank++)
            schedule_send(sched, rank, req->in, 0);
    }
    schedule_fence(sched);
}

COST(.messages = 2, .at_once = 2 * (n - 2))
ALGORITHM(monitored_barrier_direct, MONITORED_BARRIER, MESSAGES, .emit = emit, .cost = cost);
