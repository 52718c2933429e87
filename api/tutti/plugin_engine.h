/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI, beside transports and wrappers: engines that do whole collectives, and launchers that
 * say who a process is. Both since minor 3.
 */
#ifndef TUTTI_PLUGIN_ENGINE_H
#define TUTTI_PLUGIN_ENGINE_H

#include <tutti/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- collectives of an engine's own ---- */

typedef struct tutti_team
    tutti_team; /* the provider's own: one group (a communicator, a context) */

/* tutti_collective.operation */
enum {
    TUTTI_COLLECTIVE_ALL_REDUCE = 1,
    TUTTI_COLLECTIVE_BROADCAST = 2,
    TUTTI_COLLECTIVE_BARRIER = 3,
    TUTTI_COLLECTIVE_REDUCE = 4,
    TUTTI_COLLECTIVE_ALL_GATHER = 5,
    TUTTI_COLLECTIVE_GATHER = 6,
    TUTTI_COLLECTIVE_SCATTER = 7,
    TUTTI_COLLECTIVE_REDUCE_SCATTER = 8,
    TUTTI_COLLECTIVE_ALL_TO_ALL = 9
};

/* tutti_collective.flags */
enum {
    TUTTI_COLLECTIVE_UNEVEN = 1 << 0 /* blocks of different sizes: the forms with counts */
};

/*
 * One collective, as all members call it. For `serves` the first part is all there is.
 *
 * Blocks lie one behind the other: block i of a side begins where block i-1 ends. `in` is never
 * written. The memory that is given is one vector (`count` elements) or one block for every member:
 *
 *   all_reduce      in: vector                         out: vector; may be `in`
 *   broadcast       root: in == out, the vector        others: out
 *   reduce          in: vector                         root: out: vector; may be `in`
 *   all_gather      in: vector                         out: blocks; `in` may be block `rank` of it
 *   gather          in: vector                         root: out: blocks; `in` may be its block
 *   scatter         root: in: blocks                   out: vector; on the root it may be its block
 *   reduce_scatter  in: blocks                         out: vector, elsewhere
 *   all_to_all      in: blocks                         out: blocks, elsewhere
 *
 * Apart from these, `in` and `out` do not overlap. What a member does not give or get is NULL.
 */
typedef struct tutti_collective {
    uint32_t struct_size;
    uint32_t operation;     /* TUTTI_COLLECTIVE_… */
    uint32_t flags;         /* TUTTI_COLLECTIVE_… */
    uint32_t dtype;         /* tutti_dtype; 0: a barrier */
    int32_t op;             /* tutti_reduce_op, built in; -1: it reduces nothing */
    int32_t root;           /* a rank of the group; -1: none */
    int32_t size;           /* members of the group */
    uint32_t element_bytes; /* of the dtype; 1: a barrier */
    /** Elements of the vector, or of each block. Uneven: of all blocks together where every member
     * knows their sizes (all_gather, reduce_scatter), else 0. */
    uint64_t count;

    /** To start it: its number among the group's collectives, 1, 2, …; the core's own count, too. */
    uint64_t sequence;
    const void *in;     /* see above */
    void *out;          /* see above */
    uint64_t own_count; /* elements of this member's vector, or even block */
    /** [size] elements of each block of `in`, and of `out`, where they are uneven; else NULL. */
    const uint64_t *in_counts;
    const uint64_t *out_counts; /* see in_counts */
} tutti_collective;

/* What drives the collectives, found at run time: «Open MPI» 4.1.4. */
typedef struct tutti_engine_version {
    uint32_t struct_size;
    uint32_t major; /* the same is needed on all members */
    uint32_t minor; /* the same is needed where major is 0; else in words only */
    uint32_t patch; /* in words only */
    char name[64];  /* "Open MPI"; the same is needed on all members */
} tutti_engine_version;

/** What a team is opened with. Pointers are valid until open returns, except where they say more. */
typedef struct tutti_team_options {
    uint32_t struct_size;
    int32_t rank;               /* of this member in the group */
    int32_t size;               /* of the group */
    int32_t is_world;           /* 1: the group is a world; 0: it was made from another */
    const char *name;           /* the group's; valid until close */
    const char *run_id;         /* the job's name */
    const char *bind_address;   /* numeric address of the route to the rendezvous; may be NULL */
    const int32_t *world_ranks; /* [size] what the members are called in the world; until close */
    const int32_t *host_of;     /* [size] members with the same number are proven host-mates */
    tutti_endpoint *endpoint;   /* of this plugin's transport, open for the same group; or NULL */
    int64_t deadline_ns;        /* CLOCK_MONOTONIC: when making the group is given up */
    uint8_t token[16];          /* shared by the members of the group, and its own */
} tutti_team_options;

/*
 * Whole operations, done by an engine. What it does not serve, the core does with its own algorithms
 * over messages: those of a transport of the same plugin, or without one those of shm and tcp.
 * Reductions in fixed order, reductions made at run time and calls that move nothing never come here.
 *
 * A team makes one operation at a time, in the order of the calls, which is the same on all members.
 * Everything is driven by polling: no function waits for another member, except on a thread of the
 * provider's own. open, form, abort and close may take some milliseconds. An engine that can only
 * block runs on such a thread, with all signals blocked, that is left behind when `abort` cannot end
 * it.
 *
 * The core keeps deadlines, watches for dead members, and calls abort once the group has ended. It is
 * not told by the engine who is missing: an operation that cannot go on may stay TUTTI_ERR_NOT_READY.
 * An engine that knows which member is lost says so with host->peer_lost(), where the label is the
 * member's rank in the group.
 */
typedef struct tutti_collectives_ops {
    uint32_t struct_size;
    uint32_t threads; /* TUTTI_THREADS_…; MAIN_ONLY is refused */
    uint64_t reserved;

    /* required */
    /** 1: the engine does this itself; 0: the core does. A pure function: of its argument (the first
     * part), and of what is the same on all members (the engine's version). It is asked before any
     * team exists, too, and by every member for itself, so that all choose the same without talking.
     * `host` has nothing but log, config and error. */
    int32_t (*serves)(const tutti_host *host, void *host_self, const tutti_collective *what);
    /** This member's side of a team, without the others. `host` and `host_self` stay valid until
     * close. */
    tutti_status (*open)(const tutti_host *host, void *host_self, const tutti_team_options *options,
                         tutti_team **ret_team);
    /** What the other members need to know; at most 64 KiB, TUTTI_ERR_INTERNAL when `capacity` is too
     * small. 0 bytes are fine. Opaque to the core; contents are checked by who receives it. */
    tutti_status (*address)(tutti_team *team, void *ret_address, uint64_t capacity,
                            uint64_t *ret_bytes);
    /** All addresses, in the order of ranks, this member's among them; valid until form_test has
     * answered. Begins to join the members. */
    tutti_status (*form)(tutti_team *team, const void *const *addresses, const uint64_t *bytes);
    /** TUTTI_ERR_NOT_READY until operations may be started; then TUTTI_OK, or why not. */
    tutti_status (*form_test)(tutti_team *team);
    /** TUTTI_OK: taken (request->status may be final at once); TUTTI_ERR_BUSY: nothing was taken, try
     * again later. Sets request->status to TUTTI_ERR_NOT_READY while it goes on. `what` is valid until
     * start returns, but for in_counts and out_counts, which like the tensors' memory are valid until
     * the operation is complete or aborted. */
    tutti_status (*start)(tutti_team *team, const tutti_collective *what, tutti_request *request);
    /** Moves the operation and returns request->status. Called again and again: cheap. After an error
     * the team is only aborted and closed. */
    tutti_status (*test)(tutti_team *team, tutti_request *request);
    /** The group has ended: nothing is started any more. TUTTI_OK: nobody touches the memory of the
     * operation in flight any more. TUTTI_ERR_NOT_READY: the engine may still, until close; the core
     * then warns that the memory is not free, and names the operation. Waits for no member. Called by
     * the thread that moves the group, never while another function of the team runs; also before form. */
    tutti_status (*abort)(tutti_team *team);
    /** Frees the team, on this member alone: it waits for nobody. The transport's endpoint is still
     * open. */
    void (*close)(tutti_team *team);

    /* optional: NULL, or not there in an older plugin */
    /** The engine that will be used, which may be loaded for it; called before open. Members whose
     * engines differ in name or major make no group. An error says why there is none: the backend is
     * then not usable on this member. */
    tutti_status (*engine)(const tutti_host *host, void *host_self,
                           tutti_engine_version *ret_version);
    /** A descriptor that becomes readable when test would find news; the team's. It is watched for what
     * comes after arm, so it may stay readable meanwhile. Without it the core asks again and again, every
     * 100 µs while it has nothing else to do. */
    tutti_status (*wait_fd)(tutti_team *team, int32_t *ret_fd);
    /** To be called before sleeping on wait_fd: TUTTI_ARMED, or TUTTI_EVENTS_PENDING. */
    int32_t (*arm)(tutti_team *team);
    /** A member, by its rank in the group, that the operation in flight cannot go on without at the
     * moment; -1: not known. For words alone, when a deadline has ended and when ranks are asked what
     * they do. */
    int32_t (*waits_for)(tutti_team *team);
} tutti_collectives_ops;

/* ---- bootstrap ---- */

typedef struct tutti_bootstrap tutti_bootstrap; /* the provider's own */

/** Who this process is, as its launcher says. */
typedef struct tutti_identity {
    uint32_t struct_size;
    int32_t rank;       /* of this process among all that the launcher started */
    int32_t size;       /* how many it started */
    int32_t local_rank; /* among those on this process's host; -1: not known */
    int32_t local_size; /* how many are on this process's host; -1: not known */
    char job[96];       /* the same on all, another for each job; printable ASCII */
} tutti_identity;

/*
 * Who am I, and how do I reach the others: for processes that a launcher started without RANK,
 * WORLD_SIZE and a store. tutti_init() then asks the plugin of TUTTI_BOOTSTRAP, else that of the
 * backend asked for, else the one that it knows for the launcher's variables; the store's address goes
 * from rank 0 to all by `broadcast`, and everything goes on as always.
 *
 * These functions may wait, under the deadline given. Called once a world, from the thread of
 * tutti_init(); there may be several worlds, one after the other.
 */
typedef struct tutti_bootstrap_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /* required */
    /** 1: this process was started by a launcher that the provider knows; by environment variables
     * alone, without loading or opening anything. */
    int32_t (*detect)(const tutti_host *host, void *host_self);
    /** Connects to the launcher. `host` has log, now_ns, allocate, release, config and error, and is
     * valid until close. */
    tutti_status (*open)(const tutti_host *host, void *host_self, int64_t deadline_ns,
                         tutti_identity *ret_identity, tutti_bootstrap **ret_bootstrap);
    /** `bytes` of rank 0 to all: at most 1 KiB, the same `count` everywhere. Every process calls it. */
    tutti_status (*broadcast)(tutti_bootstrap *bootstrap, void *bytes, uint64_t count,
                              int64_t deadline_ns);
    /** Frees it; the launcher may still be needed by the plugin's other providers. */
    void (*close)(tutti_bootstrap *bootstrap);
} tutti_bootstrap_ops;

#ifdef __cplusplus
}
#endif
#endif
