/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before 2.27 NCCL keeps the state of a call in progress (the making of a communicator, a first call, which connects the
 * members) for each thread, and not for each communicator: another call of the same thread would overwrite it. So there a
 * thread has one call in progress at a time, and what it would begin meanwhile comes later, or by another thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* A communicator's; all bytes 0: it has no call in progress. */
struct turn {
    struct turn *next;
    pthread_t thread;
    bool is_taken; /* atomic */
};

/* Whether a version of NCCL is such a one. */
static inline bool turns_are_needed(int code)
{
    return code < 22700;
}

/* Whether this thread has no call of another communicator in progress. `own`: NULL, it is to be made. */
bool turn_is_free(const struct turn *own);
/* This thread has begun a call, which is in progress. */
void turn_take(struct turn *turn);
/* It is not any more. */
void turn_give(struct turn *turn);
