/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a group is made of, for the files of group/ and collective/.
 *
 * tutti_init() makes it in three steps: bootstrap (who am I, which store), agreement (agree.c:
 * offers, one decision, one outcome a round; control tree, host-mates, endpoints and mapped memory
 * come up on the way), and the parts that calls need (layout, facts, plans, recorder). Everything
 * that moves afterwards moves under the engine's baton; the control plane has a lock of its own,
 * which may be taken with the baton held, never the other way round.
 */
#ifndef TUTTI_GROUP_GROUP_H
#define TUTTI_GROUP_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/group.h>
#include <tutti/plugin.h>
#include <tutti/recorder.h>
#include <tutti/tensor.h>

#include "algorithm/layout.h"
#include "base/chain.h"
#include "base/error.h"
#include "base/tally.h"
#include "bootstrap/bootstrap.h"
#include "control/control.h"
#include "control/mates.h"
#include "dispatch/dispatch.h"
#include "group/announced.h"
#include "group/sampled.h"
#include "p2p/p2p.h"
#include "plugin/backend.h"
#include "work/engine.h"
#include "work/mapped.h"
#include "work/runner.h"
#include "work/work.h"

/* Backends by their numbers in the choice: inside a host, between hosts, those that rules name; beside
 * them whole operations of an engine. */
enum {
    LOCAL = BACKEND_LOCAL,
    REMOTE = BACKEND_REMOTE,
    TRANSPORTS = BACKEND_NAMES_MAX,
    NATIVE = TRANSPORTS,
    PROVIDERS
};

enum {
    GROUP_CALLS_KEPT = 64,  /* own calls, to compare late announcements with */
    GROUP_FUTURES_KEPT = 8, /* announcements a member that is ahead of us */
    GROUP_RECORDS = 4096,   /* power of two */
    GROUP_PLANS = 64,       /* power of two */
    GROUP_KEY_MAX = 256,
    GROUP_KEY_PART_MAX = 64, /* what a name becomes in it */
};

/* The world that tutti_init() is making: what dumps say of a process that has no group yet. */
struct joining {
    char name[CONTROL_NAME_MAX], run_id[128];
    int rank, size, restart; /* size 0: there is none */
    int64_t since_ns;
};

struct tutti_context {
    struct engine engine;
    struct joining joining;     /* with the baton */
    struct tutti_context *next; /* all contexts of the process */
    _Atomic int32_t groups;
    uint32_t fork_generation;
    uint32_t number; /* among the contexts of this process, from 0 */
    bool is_default;
};

/* A transport that is open for a group. */
struct endpoint {
    struct tutti_group *group;
    char name[PLUGIN_NAME_MAX + 1];
    const tutti_transport_ops *ops; /* NULL: this level is not used */
    tutti_endpoint *endpoint;
    tutti_endpoint *inmost; /* the plugin's own, behind wrappers */
    unsigned index;         /* in the p2p engine */
    int32_t wait_fd;        /* -1: none */
    tutti_status status;    /* what the plugin told host->error() last */
};

/* One collective or message in flight. */
enum call_kind { CALL_COLLECTIVE, CALL_SEND, CALL_RECV };

struct packed;
struct plan_entry;
struct native;
struct wrappers;

struct call {
    struct operation_state state; /* first: what the engine knows */
    struct tutti_group *group;
    struct call *next, *prev;
    enum call_kind kind;
    bool begun;  /* collective: announced, or its schedule is running */
    bool doomed; /* an error was proposed; the verdict completes it */
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
    struct blocks in, out;
    struct chain memory;  /* tables of blocks and the like, freed when the call completes */
    struct reduce_op *op; /* a user's reduction, a reference; NULL: none, or built in */
    uint64_t bytes;       /* of the vector, or of each block */

    /* Of its tensors that are not C-contiguous; unpacked and freed before it is complete. */
    struct packed *packed;

    struct kept_error error; /* blocking: for the thread that waits */

    /* messages */
    struct p2p_op message;
    uint64_t tag;
    int32_t peer;
};

/* A call that was made without waiting. */
struct async_call {
    struct call call;
    struct tutti_work work;
    struct async_call *next, *prev; /* in the group's list of those handed out, or of free ones */
    bool orphan;                    /* the group is gone, the handle is not */
};

/* A batch that a thread has begun and not ended; what is kept in it is collective/'s. */
struct open_batch {
    struct open_batch *next;
    const void *thread;
    void (*free)(struct open_batch *batch);
};

/* A plan with all that its calls share. */
struct plan_entry {
    struct plan_entry *next; /* in its bucket */
    int route;               /* by which of the group's routes */
    struct call_words words;
    struct call_sizes sizes; /* uneven: in the entry's own memory */
    uint32_t users;          /* calls that are queued or running */
    uint64_t mapped_bytes;   /* that one call writes to mapped memory */
    struct plan plan;
    /* Of each call what the recorder notes, but for number and bytes, and what an engine is told, but for
     * number and memory. */
    tutti_record record;
    tutti_collective engine;
    struct schedule schedule;
    struct kernels kernels;
};

struct call_list {
    struct call *first, *last;
};

/* Where a group comes from: what groups made from it, and translation, go by. subgroup.c. */
struct lineage {
    bool is_world;
    uint64_t world;        /* number of the world, in this process */
    size_t world_key_size; /* the first bytes of the group's key are the world's key */
    char world_name[CONTROL_NAME_MAX];
    int32_t *world_ranks; /* [size] each member's rank in the world */
    struct tally made;    /* how often each group was made from this one */
};

/* The ways to members by one backend. The arrays are NULL where rules lead nowhere by it. */
struct link {
    tutti_peer **peers;      /* [size] */
    struct p2p_path **paths; /* [size] */
};

/* How a rule's calls reach all members: a space of messages of its own beside the group's, in the same
 * engine. Number 0 is the group's own way: its peers, paths, p2p and facts stand in the group. */
struct route {
    struct backend_way way;
    struct p2p_group *p2p;
    struct group_facts facts;
    char composed[2 * (PLUGIN_NAME_MAX + 1)]; /* "shm+tcp": who carries what is composed */
};

/* Where calls that rules take go. Fixed when the group is made; routes.c. */
struct routes {
    struct route each[BACKEND_RULES_MAX + 1]; /* from 1 */
    int count;                                /* the group's own included */
    int of_rule[BACKEND_RULES_MAX];
    const struct backend_rule *message_rule; /* NULL: messages go the group's own way */
    struct link links[TRANSPORTS];
};

/* A member, and the group's own way to it. */
struct member {
    uint8_t level;        /* LOCAL or REMOTE: through which endpoint */
    bool gone;            /* left in order, and its path was ended */
    int64_t suspected_ns; /* when a connection ended without a reason yet; 0: never */
    char *suspicion;      /* what its provider said of that; NULL: nothing */
    uint64_t arrived;     /* of it, when it was looked at last */
    bool link_lost;       /* suspected, since the network to it does not answer */
    tutti_peer *peer;     /* NULL: this one itself */
    struct p2p_path *path;
};

/* The last calls, in a ring; recorder.h. */
struct recorder {
    tutti_record *records; /* [GROUP_RECORDS] */
    uint64_t count;        /* ever written */
    uint64_t messages;     /* of those */
};

/* What a group is being made from. */
struct forming {
    struct tutti_group *parent;
    const char *name; /* as given to tutti_group_new(); "": none */
};

struct tutti_group {
    struct engine_source source; /* first */

    /* who it is */
    struct tutti_context *context;
    uint32_t fork_generation;
    int rank, size;
    char name[CONTROL_NAME_MAX];
    char backend[PROVIDERS * (PLUGIN_NAME_MAX + 1)]; /* "shm+tcp" */
    struct lineage lineage;
    const struct forming *forming; /* NULL: it is made, or a world */
    char key[GROUP_KEY_MAX];       /* what this group's keys in the store begin with */
    struct layout layout;

    /* what was asked for */
    struct backend_choice choice;
    _Atomic int64_t timeout_ms;
    int32_t missing
        [ERROR_MISSING_MAX]; /* for whom the call waited whose deadline ended here; with the baton */
    _Atomic int missing_count;
    bool reproducible;         /* reductions take the fixed order */
    struct wrappers *wrappers; /* the world's; NULL: none */
    tutti_wrapped_group wrapped;

    /* how its members talk */
    struct bootstrap bootstrap;
    struct control *control;
    struct mates *mates;
    struct member *members; /* [size] */
    bool any_suspect;       /* of the members */
    struct endpoint endpoints[TRANSPORTS];
    struct native *native; /* NULL: no engine does whole operations */
    struct p2p_engine *p2p_engine;
    struct p2p_group *p2p; /* NULL: one member */
    struct routes routes;
    int map_level; /* whose memory the mates map, if its backend maps any */
    tutti_map *map;
    struct mapped mapped;
    bool has_mapped;
    struct group_facts facts;

    /* what it wants of the engine */
    bool callers_only; /* a plugin of it wants the program's own threads alone */
    bool barring;      /* so the engine thread rests; counted in the engine */
    int neighbours;    /* members that run on this one's CPUs, with itself */
    bool crowds;       /* they are more than the CPUs: nobody spins */
    bool rests;        /* its engine's threads need the cores: nobody spins for its calls */

    /* calls, under the baton */
    uint64_t sequence; /* of the last call that was started */
    _Atomic uint64_t completed;
    uint64_t signature; /* of all calls so far */
    struct call_list queue, messages;
    struct run run;
    struct plan_entry *plans[GROUP_PLANS]; /* buckets */
    struct plan_entry *last_plan;
    uint64_t mapped_bytes; /* written to mapped memory by collectives */
    uint32_t idle_turns;   /* of progress() with nothing of this member under way */
    struct recorder recorder;

    /* what others have called */
    struct announce calls[GROUP_CALLS_KEPT]; /* own ones, to compare with */
    struct announce *futures;                /* [size * GROUP_FUTURES_KEPT] */
    uint64_t last_future; /* no member has announced a later call that is kept there */
    struct announced announced;
    struct sampled sampled; /* of an engine's calls */

    /* works and batches, under the engine's lock */
    struct async_call *async_calls, *free_calls;
    struct open_batch *batches;
    _Atomic uint32_t open_batches;

    /* how it ended */
    struct kept_error refusal;   /* a world that forms: why this member cannot take part */
    struct agreement *agreement; /* while it is made */
    bool offered;                /* the others hear from the agreement how it ends */
    _Atomic int32_t failed;      /* every call returns the verdict */
    bool dumped;                 /* because it failed */
    bool exit_recorded;          /* the launcher has heard of the failure */
    bool told_end;               /* a call has returned the verdict to the program */
    /* Complete when all know that this member leaves; NULL: it stays. */
    struct operation_state *farewell;
    int64_t farewell_until_ns; /* unless a verdict is being made */
};

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

/* ---- context.c ---- */

/* `given`, or the default context, which is made when it is first needed; FORKED in a child. */
tutti_status context_find(tutti_context *given, tutti_context **ret_context);
/* The world becomes the default group, if it is of the default context and there is none. */
void context_offer_default(struct tutti_group *world);
/* The group ends; so it is no default group any more. */
void context_drop_default(const struct tutti_group *group);
/* The plugin's provider of that kind has opened something, which may have started its engine: the plugin
 * will hear that the process exits before exit handlers run that the engine has registered by now. */
void context_plugin_started(const tutti_plugin *plugin, enum tutti_provider_kind kind);
/* Calls fn for each context of this process, which stays until fn returns. */
void contexts_each(void (*fn)(tutti_context *context, void *user), void *user);

/* ---- agree.c ---- */

/* Agrees with all members, by way of `store`; afterwards the control tree, mates, endpoints and
 * mapped memory are up. */
tutti_status agree(struct tutti_group *group, tutti_store *store, const char *choice_words);
/* Serves the agreement while a plugin waits for other processes, on the thread of agree(). OK: go on; ABORTED,
 * without words: the group is not made in this way; TIMEOUT, without words: all others answer, and the deadline
 * is over; or what failed here. */
tutti_status agree_keep_waiting(struct tutti_group *group);
/* A store object for that, which the caller drops. A store that does not answer is waited for until the
 * deadline, unless the group that this one is made from ends. */
tutti_status agree_meet(struct tutti_group *group, tutti_store **ret_store);
/*
 * This member has failed before it could make an offer, with `status` and words: says so in the store in its
 * place, so that all fail with these words instead of waiting for it. Returns the status; the words are
 * those of all.
 */
tutti_status agree_refuse(struct tutti_group *group, tutti_status status);

/* ---- endpoints.c ---- */

tutti_status endpoint_open(struct tutti_group *group, int level, const char *name,
                           const uint8_t token[CONTROL_TOKEN_BYTES]);
void endpoints_close(struct tutti_group *group);
/* The way to one member by one backend. */
tutti_status endpoint_connect(const struct tutti_group *group, int level, int rank,
                              tutti_peer **ret_peer);
/* Ways to all members, from the roster, and the start of mapping; `host_of`: the agreed layout. */
tutti_status endpoints_connect(struct tutti_group *group, const int *host_of);
/* The memory of the mates, when the local transport maps it: NOT_READY until it is there. */
tutti_status endpoints_map_test(struct tutti_group *group);
/* Whether mates see each other's memory by that backend. */
static inline bool endpoint_maps(const struct tutti_group *group, int level)
{
    const struct endpoint *endpoint = &group->endpoints[level];

    return endpoint->ops && level == group->map_level &&
           endpoint->ops->capabilities & TUTTI_CAP_MAP;
}
/* Frees what messages go by, but for the endpoints. */
void endpoints_stop_messages(struct tutti_group *group);
/* Messages may flow from here on. `host_of`: NULL in a group of one. */
tutti_status endpoints_start_messages(struct tutti_group *group, const int *host_of);

/* What plugins may ask; `self` is an endpoint. */
extern const tutti_host endpoint_services;
/* Asks for what the others have to know, and keeps it for the roster. `address` as of a transport. */
tutti_status endpoint_take_address(struct tutti_group *group, int level, const char *name,
                                   tutti_status (*address)(void *of, void *ret_address,
                                                           uint64_t capacity, uint64_t *ret_bytes),
                                   void *of);
/* UNSUPPORTED when the core cannot call from the threads that a provider wants. */
tutti_status endpoint_check_threads(const char *name, uint32_t threads);

/* ---- routes.c ---- */

/* Finds the routes of the choice's rules, once the endpoints are open. */
void routes_find(struct tutti_group *group, const int *host_of);
/* Ways to the members by every backend that a rule's calls take; after the group's own. */
tutti_status routes_connect(struct tutti_group *group, const int *host_of);
/* Messages may flow. */
tutti_status routes_start(struct tutti_group *group, const int *host_of);
void routes_stop(struct tutti_group *group);
void routes_free(struct tutti_group *group);
/* What plans are made from, once layout and engine are known. */
void routes_gather_facts(struct tutti_group *group);
/* Every call of the rules' routes ends with `status`. */
void routes_fail(struct tutti_group *group, tutti_status status);
/* The ways to a member that left in order are ended. */
void routes_end(struct tutti_group *group, int rank);
/* What has come of the member over those that are not the group's own (p2p_path_arrived()). */
uint64_t routes_arrived(const struct tutti_group *group, int rank);
/* The route of a rule's calls; NULL, no rule: the group's own. */
int route_of(const struct tutti_group *group, const struct backend_rule *rule);
static inline struct p2p_group *route_space(const struct tutti_group *group, int route)
{
    return route ? group->routes.each[route].p2p : group->p2p;
}
/* The backend that carries messages to a member by that route. */
const char *route_carrier(const struct tutti_group *group, int route, int rank);

/* ---- group.c ---- */

/* INVALID_ARGUMENT for NULL, FORKED in a child. */
tutti_status group_check(const struct tutti_group *group);
#define group_check(group) error_named((group_check)(group))
/* Whether the group has ended, also when only a mate's page tells so far; before each call. */
static inline bool group_ended(const struct tutti_group *group)
{
    return control_verdict_status(group->control) ||
           (group->mates && mates_have_verdict(group->mates));
}
/* The verdict as the thread's error. */
tutti_status group_verdict(struct tutti_group *group);
/* The same, of a collective that this member calls after it; with the baton. */
tutti_status group_refuse(struct tutti_group *group, const struct call_words *words,
                          uint64_t bytes);

/* This member cannot go on, for what the thread's error says: proposes that as the verdict. */
void group_propose_own(struct tutti_group *group, tutti_status status);
/* The same, and waits for the verdict. Returns the status, with its words. Without the baton. */
tutti_status group_end_by_own(struct tutti_group *group, tutti_status status);
/* Whether the others are to hear that this member could not begin a collective, in which they wait. Wrong
 * arguments are the program's to correct. */
static inline bool group_others_wait(const struct tutti_group *group, tutti_status status)
{
    return status == TUTTI_ERR_NO_MEMORY && group->size > 1 && !group_ended(group);
}

/* A group without members yet; ends with group_free(). `timeout_ms` 0: the default. */
tutti_status group_create(struct tutti_context *context, const char *name, int64_t timeout_ms,
                          struct tutti_group **ret_group);
/* The members, of which bootstrap, lineage and key tell, agree; calls may be made afterwards. */
tutti_status group_form(struct tutti_group *group);
/* Begins a world's keys in the store as its bootstrap is now; asks that, if there are others. */
tutti_status group_name_key(struct tutti_group *world);
void group_free(struct tutti_group *group);

/* ---- leave.c ---- */

/* This process begins to make it. */
void groups_begin(const struct tutti_group *group);
/* Whether every group of several members that this process began to make was destroyed without a
 * verdict. */
bool groups_ended_well(void);

/* ---- subgroup.c ---- */

/* The group is the process's next world. */
tutti_status lineage_begin(struct tutti_group *world);
void lineage_free(struct lineage *lineage);
/* The part of a world's key that stands for its name. */
void lineage_key_part(const char *name, char ret_part[GROUP_KEY_PART_MAX]);

/* ---- plans.c ---- */

/* The plan of a call, made when it is new; with the baton. `sizes`: NULL unless it is uneven. */
tutti_status group_plan(struct tutti_group *group, const struct call_words *words,
                        const struct call_sizes *sizes, struct plan_entry **ret_plan);
void group_plans_free(struct tutti_group *group);
/* What the plan was made from. */
static inline const struct group_facts *plan_facts(const struct tutti_group *group,
                                                   const struct plan_entry *entry)
{
    return entry->route ? &group->routes.each[entry->route].facts : &group->facts;
}

/* ---- progress.c ---- */

extern const struct p2p_events group_events;
void group_source_init(struct tutti_group *group);
/* The call at the head of the queue has gone wrong: proposes the cause; the verdict will end it. */
void group_call_failed(struct tutti_group *group, struct call *call, tutti_status status);
/* Ends a call that is in a list; its memory may be gone afterwards. */
void group_complete(struct tutti_group *group, struct call *call, tutti_status status);
void group_message_done(struct p2p_op *op);
/* The verdict is in: every call ends with it, and its memory is the caller's again. */
void group_fail_all(struct tutti_group *group);

/* ---- look.c ---- */

void group_look(struct engine_source *source, int64_t now);
/* Takes in what members have told, and answers it: where an engine has nobody wait, nobody else does. With
 * the baton, not from p2p's callbacks. */
void group_hear(struct tutti_group *group);

/* ---- leavers.c ---- */

/* A connection with the member has ended, as `provider` says in `words` (NULL: it has none). */
void group_suspect(struct tutti_group *group, int rank, const char *provider, const char *words);
/* The same of a connection that the network does not answer: its other end may be alive. */
void group_suspect_link(struct tutti_group *group, int rank, const char *provider,
                        const char *words);
/* Ends the paths to members that left in order, once what they had sent must have arrived. */
void leavers_look(struct tutti_group *group, int64_t now);
/* What has become of members whose connection ended: they left in order, or it is proposed that they are
 * lost. */
void leavers_judge(struct tutti_group *group, int64_t now);

/* ---- waits.c ---- */

/* Whom the call waits for; rank -1: for nobody, or for anybody. With the baton. */
struct waiting group_waits_for(const struct tutti_group *group, const struct call *call);
/* The mates that have not called it, `named` aside; how many. */
int group_missing_mates(const struct tutti_group *group, const struct call *call, int named,
                        int *ret_ranks, int capacity);
/* Whether every other member has left in order, and what they had sent must have arrived. */
bool group_is_last(const struct tutti_group *group);
/* Keeps for the error of a time-out `rank`, which its words begin with, and those that have not come either. */
void group_note_missing(struct tutti_group *group, const struct call *call, int rank);
/* group_waits_for() and group_missing_mates() in words; the rank, or that of a mate that is stopped. */
int group_describe_wait(struct tutti_group *group, const struct call *call, char *ret_text,
                        size_t capacity);
/* The neighbours that are known to have called it, where an engine does it; -1: not. */
void group_heard_in(const struct tutti_group *group, const struct call *call, int32_t ret_ranks[2]);
/* "#41 all_reduce 8 x f32, sum" */
void group_describe_call(const struct call *call, char *ret_text, size_t capacity);

/* ---- compare.c ---- */

/* This member's call of that number: of the last 64, still in the queue, or sampled. NULL: forgotten, or not
 * made yet. */
const struct announce *group_own_call(const struct tutti_group *group, uint64_t sequence);
/* Compares what `source` announced with what this member called; proposes a mismatch. */
void group_compare(struct tutti_group *group, int source, const struct announce *theirs);
/* This member calls `call` now. False: somebody announced something else under this number before.
 * Looks at every member: for calls up to last_future only. */
bool group_compare_futures(struct tutti_group *group, const struct announce *call);
/* Compares the last calls of members that have left; with `leaves`, which this one does, too, their numbers
 * as well. */
void group_compare_last(struct tutti_group *group, bool leaves);
/* This member leaves: its last call with those that mates have made, as their memory tells. */
void group_compare_mates(struct tutti_group *group);
/* A mate's line in mapped memory differs from what this member called. */
void group_mapped_mismatch(struct tutti_group *group);

/* ---- advance.c ---- */

/* Whether a wrapper holds the call back still. */
bool group_holds(const struct tutti_group *group, const struct call *call);
/* Moves one collective; NOT_READY: again later. */
tutti_status group_advance(struct tutti_group *group, struct call *call);

#endif
