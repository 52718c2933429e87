/* SPDX-License-Identifier: Apache-2.0 */
/* A group of one: the result is the vector itself (an average over one member too). */
#include "algorithm/algorithm.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    schedule_copy(sched, req->out, req->in, req->bytes);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    (void)bytes;
    return (struct cost){0};
}

const struct algorithm all_reduce_alone_algorithm = {"all_reduce_alone", OPERATION_ALL_REDUCE,
                                                     ALGORITHM_ALONE, emit, cost};
const struct algorithm broadcast_alone_algorithm = {"broadcast_alone", OPERATION_BROADCAST,
                                                    ALGORITHM_ALONE, emit, cost};
const struct algorithm barrier_alone_algorithm = {"barrier_alone", OPERATION_BARRIER,
                                                  ALGORITHM_ALONE, emit, cost};
