/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, binomial tree: a member that has the vector sends it on, at distances that halve.
 * Cost: log2(n) * (alpha + bytes * beta); wins for short vectors, and up to
 * some MiB where members outnumber their CPUs. Invariant: counted from the root,
 * before distance d every multiple of 2d has the vector.
 */
#include "algorithm/binomial.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int v = binomial_index(sched, req);
    int64_t distance = binomial_distance(sched, v);

    if (v) {
        schedule_recv(sched, binomial_rank(sched, req, v - distance), req->out, req->bytes);
        schedule_fence(sched);
    }
    for (distance /= 2; distance >= 1; distance /= 2)
        if (v + distance < sched->size)
            schedule_send(sched, binomial_rank(sched, req, v + distance), req->out, req->bytes);
    schedule_fence(sched);
}

COST(.messages = log2_ceil(n), .message_bytes = log2_ceil(n) * bytes)
ALGORITHM(broadcast_binomial, BROADCAST, MESSAGES, .emit = emit, .cost = cost);
