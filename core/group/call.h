/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a group: what it is, how far it has come, and the plan that calls like it share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>
#include <tutti/recorder.h>

#include "base/call.h"
#include "base/chain.h"
#include "base/error.h"
#include "dispatch/dispatch.h"
#include "engine/engine.h"
#include "engine/work.h"
#include "p2p/p2p.h"
#include "schedule/runner.h"
#include "schedule/schedule.h"

struct tutti_group;

/* One collective or message in flight. */
enum call_kind { CALL_COLLECTIVE, CALL_SEND, CALL_RECV };

/* How far a call has come. A collective has begun when it is announced, or its schedule is running. A call
 * fails when an error was proposed: the verdict completes it, and nothing moves it until then. */
enum call_stage {
    CALL_QUEUED = 0,
    CALL_BEGUN = 1,
    CALL_FAILING = 2,
    CALL_BEGUN_AND_FAILING = CALL_BEGUN | CALL_FAILING
};

/* How far a message has come that an engine may move. */
enum moved_stage {
    MOVED_NOT,    /* it has met nothing, or the other side is to answer */
    MOVED_MET,    /* this member is to answer: in group->calls.moving.met */
    MOVED_AGREED, /* in the queue of its channel */
    MOVED_GIVEN   /* at the head of it, and the engine puts it on a stream */
};

struct device_mark;
struct packed;
struct plan_entry;
struct tutti_memory;

struct call {
    struct operation_state state; /* first: what the engine knows */
    struct tutti_group *group;
    struct call *next, *prev;
    enum call_kind kind;
    enum call_stage stage; /* changed by call_begins() and call_fails() */
    int64_t timeout_ms;
    int64_t deadline_ns; /* 0: the clock has not been asked yet */
    int64_t since_ns;    /* when it was first looked at; with deadline_ns */
    bool warned;         /* that it waits for long; with deadline_ns */
    uint64_t record;     /* number in the recorder */

    /* set by wrappers_begin() */
    bool wrapped; /* a wrapper has seen it begin and not end */
    uint64_t number;
    int64_t begun_ns;
    int64_t hold_until_ns; /* a wrapper holds it back until then */

    /* collectives */
    struct announce announce;
    struct plan_entry *plan;
    struct run *run; /* of its schedule, once that has begun; NULL: none */
    struct blocks in, out;
    struct chain memory;  /* tables of blocks and the like, freed when the call completes */
    struct reduce_op *op; /* a user's reduction, a reference; NULL: none, or built in */
    uint64_t bytes;       /* of the vector, or of each block */

    /* Registered memory; set by registered_refer(). */
    bool registered;                     /* the plan has a schedule for it, which may be taken */
    struct mapped_references references; /* what its line shows, if there is memory */
    struct tutti_memory *memory_of[2];   /* in which its input and its output are; NULL: neither */
    bool shows_own;                      /* its line shows addresses of the process */

    /* Copies of its tensors that are not C-contiguous, or not in host memory; unpacked and freed before it is
     * complete. Of a blocking call with tensors on devices its own thread ends them. */
    struct packed *packed;
    void *stream; /* that orders tensors which lie on a device */
    bool waited;  /* its thread waits for it next: it is complete once its work is on that stream */
    bool issued;  /* its work is: issued.c */
    bool captured; /* the stream is, into a graph: captured.c */
    /* Of a call with stand-ins: staged.c. */
    bool in_pieces;       /* long ones come and go while its schedule runs */
    bool starves;         /* its next step needs a piece that has not come */
    tutti_status outcome; /* of a work whose operation is over, and copies to devices are not */

    struct kept_error error; /* blocking: for the thread that waits */

    /* messages */
    /* Of one whose bytes an engine may move where they lie; moved.c. */
    enum moved_stage moved;
    int64_t met_ns;   /* since when it is MOVED_MET, without long pauses */
    int64_t asked_ns; /* when its stream was asked last */
    struct call *next_moved;
    uint64_t batch; /* whose messages may be launched as one; 0: none */
    struct device_mark
        *mark; /* blocking, once it is on a stream: behind it, for the call's stream */
    bool held; /* a send that is not posted yet: staged.c */
    struct p2p_op message;
    uint64_t tag;
    int32_t peer;
};

/* A call that was made without waiting. */
struct async_call {
    struct tutti_work work; /* first: its memory is that of the engine's works */
    struct call call;
};

/* What a call is before it is started; what it is about comes with its start. */
static inline void call_init(struct call *call, struct tutti_group *group, struct tutti_work *work)
{
    call->state = (struct operation_state){.status = TUTTI_ERR_NOT_READY, .work = work};
    call->group = group;
    call->stage = CALL_QUEUED;
    call->deadline_ns = 0;
    call->plan = NULL;
    call->run = NULL;
    call->memory.first = NULL;
    call->packed = NULL;
    call->stream = NULL;
    call->waited = call->issued = call->captured = false;
    call->held = false;
    call->moved = MOVED_NOT;
    call->mark = NULL;
    call->op = NULL;
    error_init(&call->error);
}

/* A plan with all that its calls share. */
struct plan_entry {
    struct plan_entry *next; /* in its bucket */
    int route;               /* by which of the group's routes */
    struct call_fields fields;
    uint64_t digest;         /* of the fields */
    struct call_sizes sizes; /* uneven: in the entry's own memory */
    uint32_t users;          /* calls that are queued or running */
    uint64_t mapped_bytes;   /* that one call writes to mapped memory */
    struct trial trial;      /* of its copies */
    struct plan plan;
    /* The recorder's entry of each call, without number and bytes, and the engine's description,
     * without number and memory. */
    tutti_record record;
    tutti_collective engine;
    struct schedule schedule;
    struct kernels kernels;
    /* For tensors in registered memory, made when the group has some. */
    bool registered_chosen;
    const struct algorithm *registered; /* NULL: none */
    struct schedule registered_schedule;
};

/* Whether an engine does all of it, or all but the reduction. */
static inline bool call_is_native(const struct call *call)
{
    return call->kind == CALL_COLLECTIVE && algorithm_by_engine(call->plan->plan.algorithm->kind);
}

struct call_list {
    struct call *first, *last;
};

static inline bool call_is_begun(const struct call *call)
{
    return call->stage & CALL_BEGUN;
}

static inline bool call_is_failing(const struct call *call)
{
    return call->stage & CALL_FAILING;
}

static inline void call_begins(struct call *call)
{
    call->stage |= CALL_BEGUN;
}

static inline void call_fails(struct call *call)
{
    call->stage |= CALL_FAILING;
}

static inline void call_list_append(struct call_list *list, struct call *call)
{
    call->next = NULL;
    call->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = call;
    list->last = call;
}

static inline void call_list_remove(struct call_list *list, struct call *call)
{
    *(call->prev ? &call->prev->next : &list->first) = call->next;
    *(call->next ? &call->next->prev : &list->last) = call->prev;
}
