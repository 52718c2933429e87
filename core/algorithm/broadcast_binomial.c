/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, binomial tree: who has the vector sends it on at distances that halve.
 * Cost: log2(n) * (alpha + bytes * beta); wins for short vectors.
 * Invariant: counted from the root, before distance d every multiple of 2d has the vector.
 */
#include "algorithm/binomial.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
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
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t steps = log2_ceil(layout->size);

    return (struct cost){.messages = steps, .message_bytes = steps * bytes};
}

const struct algorithm broadcast_binomial_algorithm = {
    "broadcast_binomial", OPERATION_BROADCAST, ALGORITHM_MESSAGES, emit, cost, NULL, NULL};
