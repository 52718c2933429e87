/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, and calls that are kept to be started later: in a batch, for functions that would start them otherwise,
 * and in a plan. */
#pragma once

#include "collective/call.h"
#include "group/group.h"

/* A send or receive whose arguments have been checked. */
struct message {
    const char *function; /* of the public API, for errors about arguments */
    enum call_kind kind;
    void *data;
    struct stand_ins packed; /* until it is posted */
    uint64_t bytes;
    uint64_t tag;
    uint32_t dtype;
    int32_t peer;
    int64_t timeout_ms;
    uint64_t batch; /* that it is a part of, by moved_batch(); 0: none */
    bool up_to;     /* a shorter message is welcome */
    bool waited;    /* TUTTI_WAITS_NEXT */
    bool tried;     /* it is not over at once: message_try_blocking() */
    /* The places for results that are known when it is complete; NULL: not wanted. */
    int32_t *ret_source;
    uint64_t *ret_bytes;
};

/* Starts it, under the progress lock, and takes m->packed: afterwards the call is in the group's list, or
 * complete. On failure it is in no list, and has the thread's error. */
tutti_status message_post(struct tutti_group *group, struct message *m, struct call *call);

/* A call in its final form. */
struct kept_call {
    struct kept_call *next;
    struct async_call *async; /* while it is being started */
    bool is_message;
    bool
        is_renewed; /* kept_calls_again() has begun to fill its stand-ins, and it was not started since */
    union {
        struct collective collective;
        struct message message;
    };
};

static inline const struct stand_ins *kept_stand_ins(const struct kept_call *kept)
{
    return kept->is_message ? &kept->message.packed : &kept->collective.packed;
}

/*
 * Starts the calls in their order, under one hold of the progress lock, with one work for all; `work` NULL: returns
 * when all are complete. On failure none is started. `again`: they stay as they are, to be started again; else what
 * they hold becomes the calls'.
 */
tutti_status kept_calls_run(struct tutti_group *group, struct kept_call *first, bool again,
                            tutti_work **work);
void kept_calls_free(struct kept_call *first);
/* Before each run with `again`: fills their stand-ins. BUSY: the last run is not over. */
tutti_status kept_calls_again(struct tutti_group *group, struct kept_call *first);

/* Marks the calls that the engine for devices launches together with the next one; launches.c. */
tutti_status launches_mark(const struct tutti_group *group, struct kept_call *first);

/* ---- capture.c ---- */

/* For calls that run again: finds out whether their streams are captured by now. */
tutti_status capture_look_again(struct tutti_group *group, struct kept_call *first);
/* UNSUPPORTED, unless the streams of all calls are captured, or those of none. */
tutti_status capture_check_all(const struct kept_call *first);
/* Whether those are, of calls that passed. */
bool capture_takes(const struct kept_call *first);

struct batch;

struct batch *batch_find(struct tutti_group *group);

/* The batch that this thread has open on the group; NULL: none. */
static inline struct batch *batch_of(struct tutti_group *group)
{
    return group && atomic_load_explicit(&group->works.open_batches, memory_order_relaxed)
               ? batch_find(group)
               : NULL;
}

/*
 * Keeps a call until the batch ends, and returns `status`, which is what checking it came to; any
 * error makes the batch void. `wants` tells that the caller asks for a work, of which a batch has one
 * for all. Takes the memory of `c` or `m` when it returns OK.
 */
tutti_status batch_add_collective(struct batch *batch, struct collective *c, tutti_status status,
                                  bool wants);
tutti_status batch_add_message(struct batch *batch, struct message *m, tutti_status status,
                               bool wants);
/* Ends the batch that this thread has open on the group, and gives its calls; on failure (there is none, or it is
 * void) they are gone. */
tutti_status batch_take(struct tutti_group *group, const char *function,
                        struct kept_call **ret_first);
