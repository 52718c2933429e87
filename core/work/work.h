/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle of an operation that was started without waiting. It has two references: the
 * caller's, dropped by tutti_work_free(), and the operation's, dropped when it is complete.
 */
#ifndef TUTTI_WORK_WORK_H
#define TUTTI_WORK_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/work.h>

#include "base/error.h"
#include "work/engine.h"

struct tutti_work {
    struct engine *engine;
    struct operation_state *state; /* inside what `release` frees */
    void (*release)(struct tutti_work *work);
    /* Withdraws the operation, with the baton, or says why not; NULL: it cannot be. */
    tutti_status (*cancel)(struct tutti_work *work);
    _Atomic uint32_t references;
    uint32_t fork_generation;
    _Atomic bool watched;
    bool due; /* its callback is queued or has run; under the engine's lock */
    tutti_work_fn fn;
    void *user;
    struct tutti_work *next_due;
    int32_t source; /* of a completed receive, else -1 */
    uint64_t bytes;
    uint64_t sequence;          /* of a collective, else 0 */
    struct tutti_work *part_of; /* the work of a batch, complete when its last part is; or NULL */
    uint32_t parts;             /* of a batch: not complete; under the baton */
    tutti_status part_status;   /* of a batch: of the first part that failed */
    struct kept_error error;
};

/* Between the files of work/. */
void work_completed(struct tutti_work *work);
void work_run_callback(struct tutti_work *work);
void work_drop(struct tutti_work *work);

/* For the work of a batch, with the baton. The thread's error is why a part has failed. */
void work_part_failed(struct tutti_work *whole, tutti_status status);
/* One part less is to be waited for; completes the work with the last. */
void work_part_ended(struct tutti_work *whole, tutti_status status);

#endif
