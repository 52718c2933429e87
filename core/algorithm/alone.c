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

#define ALONE(name, NAME) ALGORITHM(name, NAME, ALONE, .emit = emit, .cost = cost);
ALGORITHM_OF_EACH(ALONE, _alone)
ALONE(monitored_barrier_alone, MONITORED_BARRIER)
