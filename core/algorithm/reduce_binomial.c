/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, binomial tree: at distances that double, every second member hands what it has to the one
 * below it and is done. Cost: log2(n) * (alpha + bytes * (beta + gamma)); wins for short vectors.
 * Invariant: counted from the root, before distance d every multiple of d that is still in holds the
 * reduction of the d members from itself on.
 */
#include "algorithm/binomial.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, v = binomial_index(sched, req);
    const uint64_t mark = sched->scratch_used;
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
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t steps = log2_ceil(layout->size);

    return (struct cost){
        .messages = steps, .message_bytes = steps * bytes, .reduced_bytes = steps * bytes};
}

const struct algorithm reduce_binomial_algorithm = {
    "reduce_binomial", OPERATION_REDUCE, ALGORITHM_MESSAGES, emit, cost, NULL, NULL};
