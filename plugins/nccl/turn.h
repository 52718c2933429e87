/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before 2.27 NCCL keeps the state of a call in progress (the making of a communicator, a first call, which connects the
 * members) for each thread, and not for each communicator: another call of the same thread would overwrite it. So there a
 * call that finds its thread taken is made by a thread of its own, which lives as long as the call is in progress. To let
 * it wait instead would be wrong: members may come to calls of two communicators in different orders.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "nccl_api.h"

struct helper;

/* A communicator's; all bytes 0: it has no call in progress. */
struct turn {
    struct turn *next;
    pthread_t thread;      /* that has made the call */
    struct helper *helper; /* NULL: it is none of ours */
    bool is_taken;         /* atomic */
};

/* Whether a version of NCCL is such a one. */
static inline bool turns_are_needed(int code)
{
    return code < 22700;
}

/* Makes the call, here or there, and returns its result. ncclSystemError, without a call: there is no thread for it. */
ncclResult_t turn_call(struct turn *turn, ncclResult_t (*call)(void *user), void *user);
/* The call is not in progress any more. */
void turn_give(struct turn *turn);
