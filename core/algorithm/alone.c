/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of one: the result is the vector, or its one block (an average over one member too), with
 * bools made 0 or 1 as any reduction makes them.
 */
#include "algorithm/algorithm.h"

static void emit(struct schedule *sched, const struct request *req)
{
    schedule_copy(sched, req->out, req->in, req->bytes);
    if (req->finish)
        schedule_finish(sched, req->out, req->bytes);
}

COST(.messages = 0)

#define ALONE(NAME, name) ALGORITHM(name##_alone, NAME, ALONE, .emit = emit, .cost = cost);

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
