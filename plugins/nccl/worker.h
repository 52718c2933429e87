/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that makes the calls of one communicator.
 *
 * Before 2.27 NCCL keeps the state of a non-blocking call (the making of a communicator, the calls of a group) in variables of
 * the thread that makes it, and uses them until the call is over, for a failed one until its communicator is aborted.
 * So calls of two communicators must not come from one thread, and the thread must outlive the communicator. Since 2.27 a
 * worker makes the last call of a communicator alone, its end, which may take long.
 */
#pragma once

#include <stdbool.h>

#include "nccl_api.h"

struct worker;

/* Whether a version of NCCL is such a one. */
static inline bool workers_are_needed(int code)
{
    return code < 22700;
}

/* NULL, with errno: there is no memory or no thread. */
struct worker *worker_start(void);
/* Makes the call there, waits for it, and returns its result. One at a time. */
ncclResult_t worker_call(struct worker *worker, ncclResult_t (*call)(void *user), void *user);
/* Makes the last call there, without waiting; the worker ends with it. */
void worker_finish(struct worker *worker, void *(*call)(void *user), void *user);
