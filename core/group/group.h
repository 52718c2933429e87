/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a group is made of, for group/ and all folders above it.
 *
 * tutti_init() makes it in three steps: bootstrap (the own rank, the store), agreement (agree.c:
 * offers, one decision, one outcome a round; control tree, local peers, endpoints and mapped memory
 * come up on the way), and the parts that calls need (layout, facts, plans, recorder). Everything
 * that moves afterwards moves under the engine's progress lock; the control plane has a lock of its
 * own, which may be taken while the progress lock is held, never the other way round.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/group.h>
#include <tutti/plugin.h>
#include <tutti/recorder.h>
#include <tutti/tensor.h>

#include "algorithm/layout.h"
#include "base/chain.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/tally.h"
#include "base/without.h"
#include "bootstrap/bootstrap.h"
#include "control/control.h"
#include "device/device.h"
#include "dispatch/dispatch.h"
#include "engine/engine.h"
#include "engine/work.h"
#include "group/call.h"
#include "group/comparing.h"
#include "group/memories.h"
#include "group/ways.h"
#include "local/local.h"
#include "p2p/p2p.h"
#include "plugin/backend.h"
#include "plugin/host.h"
#include "schedule/mapped.h"
#include "schedule/runner.h"

enum {
    GROUP_RECORDS = 4096, /* power of two */
    GROUP_PLANS = 64,     /* power of two */
    GROUP_RUNS = 128,     /* calls whose schedules run at the same time */
    GROUP_KEY_MAX = 256,
    GROUP_KEY_PART_MAX = 64, /* what a name becomes in it */
    GROUP_VERDICT_MS = 2000, /* for the verdict of a cause that this member has proposed */
};

/* The world that tutti_init() is making: what dumps say of a process that has no group yet. */
struct joining {
    char name[CONTROL_NAME_MAX], run_id[128];
    int rank, size, restart; /* size 0: there is none */
    int64_t since_ns;
};

struct tutti_context {
    struct progress_engine engine;
    struct joining joining;     /* under the progress lock */
    struct tutti_context *next; /* all contexts of the process */
    _Atomic int32_t groups;
    uint32_t fork_generation;
    uint32_t number; /* among the contexts of this process, from 0 */
    bool is_default;
};

/* A batch that a thread has begun and not ended; what is kept in it is collective/'s. */
struct open_batch {
    struct open_batch *next;
    uint64_t thread; /* its number in this process */
    void (*free)(struct open_batch *batch);
};

/* The origin of a group, for the keys of groups made from it and for the translation of ranks;
 * subgroup.c. */
struct origin {
    bool is_world;
    int local_rank;        /* of this member in the world; -1: that has no layout yet */
    uint64_t world;        /* number of the world, in this process */
    size_t world_key_size; /* the first bytes of the group's key are the world's key */
    char world_name[CONTROL_NAME_MAX];
    int32_t *world_ranks; /* [size] each member's rank in the world */
    struct tally made;    /* how often each group was made from this one */
};

enum { RECORD_QUEUED, RECORD_RUNNING, RECORD_DONE, RECORD_FAILED };

/* The last calls, in a ring. */
struct recorder {
    tutti_record *records; /* [GROUP_RECORDS] */
    uint64_t count;        /* ever written */
    uint64_t messages;     /* of those */
};

/* Functions of higher folders, called by lower ones; every group has the same, from init.c. */
struct upcalls {
    const struct p2p_events *messages;
    /* A connection with the member has ended, as `provider` says in `message` (NULL: it has none); `link`: the
     * network does not answer on it, and its other end may be alive. */
    void (*suspect)(struct tutti_group *group, int rank, const char *provider, const char *message,
                    bool link);
    /* Serves the agreement while a plugin waits for other processes, on the thread that makes the group. OK:
     * go on; ABORTED, without a message: the group is not made in this way; TIMEOUT, without a message: all others
     * answer, and the deadline is over; or what failed here. */
    tutti_status (*keep_waiting)(struct tutti_group *group);
    /* The group has failed: its report to the launcher and its dump, once; under the progress lock. */
    void (*report_failure)(struct tutti_group *group);
};

/* The source of a group that is being made. */
struct forming {
    struct tutti_group *parent;
    const char *name; /* as given to tutti_group_new(); "": none */
};

/* The group's needs of the progress engine. */
struct group_needs {
    bool callers_only;     /* a plugin of it wants the program's own threads alone */
    bool no_engine_thread; /* so the engine thread rests; counted in the engine */
    int neighbours, cpus;  /* members that share this one's CPUs, with itself; how many CPUs */
    bool oversubscribed;   /* they are more than the CPUs: nobody spins */
    bool crowded;          /* members of this host outnumber all their CPUs, as all agree */
    bool no_spin;          /* its engine's threads need the cores: nobody spins for its calls */
};

/* Messages whose bytes an engine moves where they lie: moved.c. */
struct moving {
    struct call *met, **last_met; /* that this member is to answer */
    struct channel *channels;
    uint32_t under_way; /* calls that have met something, and messages on streams */
    uint64_t batches;   /* with messages, so far */
    bool fails;         /* an error of a channel was proposed */
};

/* Calls in flight, under the progress lock. */
struct group_calls {
    uint64_t sequence; /* of the last call that was started */
    _Atomic uint64_t completed;
    uint64_t signature; /* of all calls so far */
    struct call_list queue, messages;
    struct call_list returning;           /* works whose results are copied to devices */
    struct issued *issued, **last_issued; /* calls whose work is on streams: issued.c */
    bool issued_fails;                    /* an error of theirs was proposed */
    bool has_captured;                    /* graphs may run calls of it: captured.c */
    int64_t trouble_ns; /* when their engine first said that something has failed; 0: it has not */
    struct moving moving;
    uint32_t held;                /* sends of `messages` that are not posted yet */
    struct run run;               /* of a call that runs alone */
    struct run *runs[GROUP_RUNS]; /* of short calls, idle; the last one was used last */
    uint32_t idle_runs;
    struct plan_entry *plans[GROUP_PLANS]; /* buckets */
    struct plan_entry *last_plan;
    uint64_t mapped_bytes;              /* written to mapped memory by collectives */
    uint32_t idle_turns;                /* of progress() with nothing of this member under way */
    int32_t missing[ERROR_MISSING_MAX]; /* for whom the call waited whose deadline ended here */
    _Atomic int missing_count;
};

/* Batches, under the engine's lock. */
struct group_works {
    struct open_batch *batches;
    _Atomic uint32_t open_batches;
};

/* How it ends. */
struct group_ending {
    _Atomic int32_t failed; /* every call returns the verdict */
    bool dumped;            /* because it failed */
    bool exit_recorded;     /* the launcher has heard of the failure */
    bool told_end;          /* a call has returned the verdict to the program */
    /* Complete when all know that this member leaves; NULL: it stays. */
    struct operation_state *leaving;
    int64_t leaving_until_ns; /* unless a verdict is being made */
};

struct tutti_group {
    struct engine_source source; /* first */

    struct tutti_context *context;
    const struct upcalls *upcalls;
    uint32_t fork_generation;
    int rank, size;
    char name[CONTROL_NAME_MAX];
    char backend[PROVIDERS * (PLUGIN_NAME_MAX + 1)]; /* "shm+tcp" */
    struct origin origin;
    char key[GROUP_KEY_MAX]; /* what this group's keys in the store begin with */
    struct layout layout;

    /* what was asked for */
    struct backend_choice choice;
    struct device_choice device_choice;
    _Atomic(struct device *) device; /* that its tensors may lie on; NULL: none was used yet */
    _Atomic int64_t timeout_ms;
    int64_t stall_warning_ns;     /* a call that waits longer is warned of; INT64_MAX: none is */
    bool reproducible;            /* reductions take the fixed order */
    bool has_checksums;           /* behind each message; collectives go by messages */
    enum environment_tls tls;     /* what was asked for */
    int32_t encryption;           /* TUTTI_ENCRYPTION_…: what it came to */
    struct thresholds thresholds; /* of the tuning file, fitted to the group */

    /* while it is made */
    const struct forming *forming; /* NULL: it is made, or a world */
    struct kept_error refusal;     /* a world: why this member cannot take part */
    struct agreement *agreement;
    bool offered; /* the others hear from the agreement how it ends */

    struct bootstrap bootstrap;
    struct control *control;
    struct local_peers *local;
    struct group_ways ways;
    struct group_needs needs;
    struct group_calls calls;
    struct group_memories memories;
    struct recorder recorder;
    struct group_comparing comparing;
    struct group_works works;
    struct group_ending ending;
};

/* Whether the ring has gone on and the record of that number is another call's by now. */
static inline bool record_is_gone(const struct tutti_group *group, uint64_t number)
{
    return WITHOUT_RECORDER || group->recorder.count - number > GROUP_RECORDS;
}

static inline tutti_record *record_at(struct tutti_group *group, uint64_t number)
{
    return &group->recorder.records[number % GROUP_RECORDS];
}

static inline void record_state(struct tutti_group *group, uint64_t number, int32_t state)
{
    if (!record_is_gone(group, number))
        record_at(group, number)->state = state;
}

/* ---- contexts.c: the list of this process's contexts ---- */

/* Numbers it, too. */
void contexts_add(tutti_context *context);
void contexts_remove(tutti_context *context);
/* Calls fn for each context of this process, which stays until fn returns. */
void contexts_each(void (*fn)(tutti_context *context, void *user), void *user);
/* In a forked child: they are its parent's. */
void contexts_forget(void);

/* ---- device.c ---- */

/* The device that the group's tensors lie on, which the first call opens: the one that was chosen for the group, else one by
 * the member's rank on its host; -1: unknown. May block. */
tutti_status group_open_device(struct tutti_group *group, int32_t type, int local_rank,
                               struct device **ret_device);

/* ---- key.c ---- */

/* Begins a world's keys in the store as its bootstrap is now; asks that, if there are others. */
tutti_status group_name_key(struct tutti_group *world);
/* The same for the number that the bootstrap has, without asking. */
void group_write_key(struct tutti_group *world);

/* ---- group.c ---- */

/* INVALID_ARGUMENT for NULL, FORKED in a child. */
tutti_status group_check_in(const char *function, const struct tutti_group *group);
#define group_check(group) group_check_in(__func__, group)
/* Whether the group has ended, also when only a local peer's page tells so far; before each call. */
static inline __attribute__((always_inline)) bool group_ended(const struct tutti_group *group)
{
    return control_verdict_status(group->control) ||
           (group->local && local_have_verdict(group->local));
}
/* The verdict as the thread's error. */
tutti_status group_verdict(struct tutti_group *group);
/* This member cannot go on, for what the thread's error says: proposes that as the verdict. */
void group_propose_own(struct tutti_group *group, tutti_status status);
/* The same, and waits for the verdict. Returns the status, with its message. Without the progress lock. */
tutti_status group_end_by_own(struct tutti_group *group, tutti_status status);
/* Whether the others are to hear that this member could not begin a collective, in which they wait. Wrong
 * arguments are the program's to correct. */
static inline bool group_others_wait(const struct tutti_group *group, tutti_status status)
{
    return status == TUTTI_ERR_NO_MEMORY && group->size > 1 && !group_ended(group);
}
/* Whether this member gives something to a call, and whether it gets something from it. */
static inline bool group_gives(const struct tutti_group *group, const struct call_fields *fields)
{
    return operation_moves(fields->operation) &&
           (group->rank == fields->root ||
            (fields->operation != OPERATION_BROADCAST && fields->operation != OPERATION_SCATTER));
}
static inline bool group_gets(const struct tutti_group *group, const struct call_fields *fields)
{
    return operation_moves(fields->operation) &&
           (group->rank == fields->root ||
            (fields->operation != OPERATION_REDUCE && fields->operation != OPERATION_GATHER));
}
