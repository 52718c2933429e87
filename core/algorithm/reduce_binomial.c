/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, binomial tree: at distances that double, every second member hands what it has to the one
 * below it and is done. Cost: log2(n) * (alpha + bytes * (beta + gamma)); wins for short vectors, and for
 * long ones where members outnumber their CPUs.
 * Invariant: counted from the root, before distance d every multiple of d that is still in holds the
 * reduction of the d members from itself on.
 */
#include "algorithm/binomial.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, v = binomial_index(sched, req);
    const struct place theirs = schedule_scratch(sched, req->bytes);
    const struct place sum = v ? schedule_scratch(sched, req->bytes) : req->out;
    struct place mine = req->in;
    int64_t distance = 1;

    for (; distance < n && !(v & distance); distance *= 2) {
        if (v + distance >= n)
            continue;
        schedule_recv(sched, binomial_rank(sched, req, v + distance), theirs, req->bytes);
        schedule_fence(sched);
        schedule_reduce(sched, sum, mine, theirs, req->bytes);
        mine = sum;
    }
    if (v) {
        schedule_send(sched, binomial_rank(sched, req, v - distance), mine, req->bytes);
        schedule_fence(sched);
    } else if (req->finish) {
        schedule_finish(sched, req->out, req->bytes);
    }
}

COST(.messages = log2_ceil(n), .message_bytes = log2_ceil(n) * bytes,
     .reduced_bytes = log2_ceil(n) * bytes)
ALGORITHM(reduce_binomial, REDUCE, MESSAGES, .flags = ALGORITHM_ROUNDS_ON_THE_WAY, .emit = emit,
          .cost = cost);
