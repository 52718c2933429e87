/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle of an operation that was started without waiting. It has two references: the
 * caller's, dropped by tutti_work_free(), and the operation's, dropped when it is complete.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/work.h>

#include "base/error.h"
#include "engine/engine.h"

struct tutti_work {
    struct progress_engine *engine;
    struct operation_state *state; /* inside what `release` frees */
    void (*release)(struct tutti_work *work);
    /* Withdraws the operation, under the progress lock, or says why not; NULL: it cannot be. */
    tutti_status (*cancel)(struct tutti_work *work);
    /* Looks a while for what completes it, under the progress lock, before a thread waits in earnest; NULL: the
     * wait does all. */
    void (*spin)(struct tutti_work *work);
    _Atomic uint32_t references;
    uint32_t fork_generation;
    _Atomic bool watched;
    _Atomic bool interest; /* a function was given: completion takes the lock */
    /* Under the engine's lock. */
    bool due; /* in the engine's queue of callbacks */
    bool fn_ran;
    bool held; /* complete, but an engine may still use its tensors */
    bool has_release;
    tutti_work_fn fn;
    void *user;
    tutti_release_fn on_release; /* NULL: there is none, or it was called */
    void *release_user;
    struct tutti_work *next_due; /* callback to run; or next free memory */
    int32_t source;              /* of a completed receive, else -1 */
    uint64_t bytes;
    /* NULL, or where the caller of a batch wants these of its part; written when it ended well. */
    int32_t *ret_source;
    uint64_t *ret_bytes;
    uint64_t sequence;          /* of a collective, else 0 */
    struct tutti_work *part_of; /* the work of a batch, complete when its last part is; or NULL */
    uint32_t parts;             /* of a batch: not complete; under the progress lock */
    tutti_status part_status;   /* of a batch: of the first part that failed */
    /* What a stream waits on; opened when the work is complete, however it ends. Under the progress lock. */
    void *word; /* NULL: none */
    void (*open_word)(void *word);
    _Atomic uint32_t to_issue; /* operations of it that an engine has yet to put on their streams */
    void *mark; /* behind its one operation, on a stream; NULL: none. Under the progress lock. */
    uint32_t marked;   /* of a batch: how many of its parts `mark` is behind */
    bool is_on_stream; /* it was complete once its operation was on `stream`; when it is complete */
    void *stream;
    bool is_captured;   /* as is_on_stream, and that stream was captured: it runs with a graph */
    bool is_on_streams; /* with is_captured, of a batch: on others than `stream`, too */
    struct kept_error error;
};

/*
 * Memory of works that are all of one size: each is the first member of what it is taken for. Taken under the
 * progress lock, given back by any thread without a lock. It is kept for the next work.
 */
struct tutti_work *work_memory_take(struct progress_engine *engine, size_t bytes);
void work_memory_give_back(struct tutti_work *work);
/* Gives back what nothing was made of; under the progress lock. */
void work_memory_untake(struct tutti_work *work);
/* How many are not given back, those of batches included. */
uint32_t work_memory_used(struct progress_engine *engine);
/* Frees what is not in use. */
void work_memory_trim(struct progress_engine *engine);

/* One of its operations more, or less, is to be put on a stream; also where it is a part. */
static inline void work_count_to_issue(struct tutti_work *work, int change)
{
    atomic_fetch_add(&(work->part_of ? work->part_of : work)->to_issue, (uint32_t)change);
}

/* Between the files of work/. */
void work_completed(struct tutti_work *work);
void work_run_callback(struct tutti_work *work);

/* Holds back the release of a work before it is complete, with a reference, until work_let_go(): an
 * engine may not be able to let go of the tensors of a call that fails. */
void work_hold(struct tutti_work *work);
void work_let_go(struct tutti_work *work);

/* Notes in the work of a batch, under the progress lock, that a part has failed with the thread's
 * error. */
void work_part_failed(struct tutti_work *whole, tutti_status status);
/* One part less is to be waited for; completes the work with the last. */
void work_part_ended(struct tutti_work *whole, tutti_status status);
