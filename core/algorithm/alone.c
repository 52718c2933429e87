/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of one: the result is the vector, or its one block (an average over one member too), with
 * bools made 0 or 1 as any reduction makes them.
 */
#include "algorithm/algorithm.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    schedule_copy(sched, req->out, req->in, req->bytes);
    if (req->finish)
        schedule_finish(sched, req->out, req->bytes);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    (void)bytes;
    return (struct cost){0};
}

#define ALONE(NAME, name)                                                                          \
    const struct algorithm name##_alone_algorithm = {                                              \
        #name "_alone", OPERATION_##NAME, ALGORITHM_ALONE, emit, cost, NULL, NULL};

ALONE(ALL_REDUCE, all_reduce)
ALONE(BROADCAST, broadcast)
ALONE(BARRIER, barrier)
ALONE(MONITORED_BARRIER, monitored_barrier)
ALONE(REDUCE, reduce)
ALONE(ALL_GATHER, all_gather)
ALONE(GATHER, gather)
ALONE(SCATTER, scatter)
ALONE(REDUCE_SCATTER, reduce_scatter)
ALONE(ALL_TO_ALL, all_to_all)
