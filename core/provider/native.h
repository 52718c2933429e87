/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that does a group's whole operations: its team, and one operation at a time.
 *
 * An engine is asked again and again and never waited for; deadlines, dead members and verdicts are
 * the core's, and the first thing that the core does with a group that has ended is to abort the team.
 * What a call of it goes through is in progress/native_call.c.
 */
#pragma once

#include "group/group.h"

/* A call's memory as engines want it; native_memory.c. */
struct native_memory {
    tutti_collective what;
    const struct call *call;
    char *out_stand_in;       /* NULL: the engine writes where the call wants it */
    const uint64_t *out_size; /* uneven: bytes of each block; else NULL */
    uint32_t out_blocks;
    uint64_t block_bytes;
};

/* A reduction by kernels of the device: its steps, each an operation of the engine; native_kernels.c. */
struct native_kernels {
    tutti_collective what; /* the step that comes next, or is under way */
    uint64_t *counts;      /* of its blocks; in the call's memory */
    uint32_t step, steps;  /* its number, and how many there are; equal: none is left */
    bool has_copied;       /* what it sends is on its way to scratch memory */
};

struct native {
    struct host_user user;
    const tutti_collectives_ops *ops;
    tutti_team *team;
    struct native_facts facts;
    const void **addresses; /* while it forms */
    uint64_t *address_bytes;
    int *host_of;
    int32_t wait_fd; /* -1: none */

    tutti_request request;
    struct device *device; /* whose memory it takes; NULL: host memory */
    bool under_way;        /* start has taken an operation that has no result yet */
    bool laid_out;         /* the call's memory is as engines want it */
    uint32_t launched;     /* calls from the first in the queue whose work is on streams */
    bool formed, aborted;
    bool lent;            /* a thread uses the team without the progress lock */
    bool owes_abort;      /* … and the team is to be aborted when it returns */
    int64_t asked_ns;     /* when it began to; 0: not in this call */
    bool asks;            /* before each operation, whether the neighbours call the same */
    bool waits;           /* test has said NOT_READY, in the call that is under way */
    bool late;            /* a neighbour had not answered when native_call_look() looked last */
    int64_t since_ns;     /* when native_call_look() saw it first */
    tutti_status trouble; /* what the engine failed with; the group will */
    int64_t trouble_ns;   /* since when */
    char message[CONTROL_MESSAGE_MAX]; /* the engine's */
    struct native_memory memory;
    const tutti_collective **
        batch; /* in place of it: operations that are launched as one; of the first call's memory */
    uint32_t batch_count; /* 0: one alone */
    struct native_kernels kernels;
    /* Memory that the engine may write until the team is closed. */
    struct chain kept;
    struct packed *kept_packed;
    struct tutti_work *kept_work; /* of a failed operation that the engine cannot withdraw */
};

/* This member's side of the team of backend `name`, after the transports were opened. `place`: NATIVE, or DEVICE_NATIVE,
 * for which the member's device is opened. */
tutti_status native_open(struct tutti_group *group, int place, const char *name, const int *host_of,
                         int64_t deadline_ns);
/* The roster is there: begins to join the members, of one engine after the other. Nothing where the group has none. */
tutti_status native_form(struct tutti_group *group);
/* NOT_READY until operations may be started. */
tutti_status native_form_test(struct tutti_group *group);
/* Aborts and closes the team. */
void native_close(struct tutti_group *group);

/* The engine that does the call, NULL: none does. */
static inline struct native *native_of(const struct tutti_group *group, const struct call *call)
{
    if (!call || !call_is_native(call))
        return NULL;
    return call->plan->engine.device_type ? group->ways.device_native : group->ways.native;
}

/* Whether the engine for devices does such a call, and may launch it together with others. The same on all members. */
bool native_may_join(const struct tutti_group *group, const struct call_fields *fields);
/* The call of the same batch that the engine launches together with this one; NULL: it is the last. */
static inline struct call *native_next(const struct call *call)
{
    struct call *next = call->announce.fields.flags & CALL_WITH_NEXT ? call->next : NULL;

    return next && next->state.work && next->state.work->part_of == call->state.work->part_of
               ? next
               : NULL;
}

/* The facts of the engine for host memory, for plans; NULL: no engine. */
const struct native_facts *native_facts(const struct tutti_group *group);

/* The thread's error, where the engine has set none: that it failed to `what`. Returns `status`. */
tutti_status native_explain(struct native *n, tutti_status status, const char *what);
/* The same of a status that may be none of a failure. */
static inline tutti_status native_failed(struct native *n, tutti_status status, const char *what)
{
    return status && status != TUTTI_ERR_NOT_READY ? native_explain(n, status, what) : status;
}
/* Hands the call's operation to the engine, with those that are launched together with it. NOT_READY: it takes none
 * now. */
tutti_status native_start(struct tutti_group *group, struct call *call);
/* The same for one operation, which `what` says. */
tutti_status native_start_one(struct native *n, const tutti_collective *what);
/* The result of the operation, or NOT_READY. */
tutti_status native_test(struct tutti_group *group, struct native *n);
/* The operation is over, well or badly: the next one begins anew. */
void native_forget(struct native *n);
/* Aborts the team, with `call`, which may be under way, or NULL. NOT_READY: the engine cannot withdraw it, so
 * its tensors may be written until the team is closed; what is the call's own is kept as long. */
tutti_status native_withdraw(struct native *n, struct call *call);
/* Lends the team to this thread, without the progress lock: no other function of it is called until native_return().
 * TIMEOUT: an operation was under way so long. */
tutti_status native_lend(struct tutti_group *group, struct native *n);
void native_return(struct tutti_group *group, struct native *n);
/* Aborts the team where the group has failed, and nobody else has. The thread has the team (native_lend()), or no other
 * thread uses it. */
void native_abort_failed(struct tutti_group *group, struct native *n);
/* Whether it has to be asked again and again. */
bool native_is_polled(const struct tutti_group *group);
/* The neighbours in the ring of ranks, 0 and 1, which are asked first; both may be the same. */
static inline int native_neighbour(const struct tutti_group *group, int i)
{
    return (group->rank + (i ? group->size - 1 : 1)) % group->size;
}
/* Whether it works on threads of its own and the host has too few cores for them beside the waiting
 * threads. */
bool native_needs_cores(const struct tutti_group *group);

/* ---- native_memory.c ---- */

/* Filled where it lies, which small calls feel; after a failure it holds nothing of use. */
tutti_status native_memory_lay_out(struct tutti_group *group, struct call *call,
                                   struct native_memory *ret_memory);
/* The operation is complete: copies what the engine wrote elsewhere. */
void native_memory_give_back(const struct native_memory *memory);

/* ---- native_kernels.c ---- */

/* How many bytes of the device's memory such a reduction needs on this member. `in_sizes`: bytes of its uneven blocks;
 * NULL where they are even. */
uint64_t native_kernels_scratch(const struct tutti_group *group, const struct call_fields *fields,
                                const uint64_t *in_sizes);
/* The call's memory is laid out: tells how many steps it has. */
tutti_status native_kernels_begin(struct native *n, struct call *call);
/* The last step that was started is on the stream: puts there what is behind it, and starts those that are left. OK: all is
 * on the stream. NOT_READY: a step is under way, or the engine takes none now. Nothing is left of other calls. */
tutti_status native_kernels_go_on(struct native *n, const struct call *call);
