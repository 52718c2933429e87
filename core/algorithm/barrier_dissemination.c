/* SPDX-License-Identifier: Apache-2.0 */
/*
 * barrier, dissemination: at distances 1, 2, 4, … each member tells the one to its right and hears
 * the one to its left. Cost: log2(n) * alpha. Invariant: before distance d a member knows that the
 * d members r-d+1 … r have called. It serves an all_reduce without elements as well.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank;

    for (int64_t distance = 1; distance < n; distance *= 2) {
        schedule_recv(sched, (int)((r - distance + n) % n), req->out, 0);
        schedule_send(sched, (int)((r + distance) % n), req->out, 0);
        schedule_fence(sched);
    }
}

COST(.messages = log2_ceil(n))
ALGORITHM(barrier_dissemination, BARRIER, MESSAGES, .emit = emit, .cost = cost);
