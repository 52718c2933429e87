/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI beside transports and wrappers: engines that do whole collectives, and launchers that
 * give a process its rank. Both since minor 3.
 */
#ifndef TUTTI_PLUGIN_ENGINE_H
#define TUTTI_PLUGIN_ENGINE_H

#include <tutti/plugin.h>
#include <tutti/plugin_device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- collectives of an engine's own ---- */

typedef struct tutti_team
    tutti_team; /* the provider's own: one group (a communicator, a context) */

/* The provider's own: this member's end of the way of messages from one member to another. */
typedef struct tutti_message_channel tutti_message_channel;

/* The provider's own: memory of the team's device that it knows beforehand. */
typedef struct tutti_team_memory tutti_team_memory;

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
    TUTTI_COLLECTIVE_UNEVEN = 1 << 0, /* blocks of different sizes: the forms with counts */
    /* Since minor 9: the stream is captured into a graph; only where tutti_collectives_ops.captures is 1. */
    TUTTI_COLLECTIVE_CAPTURED = 1 << 1
};

/*
 * One collective, as all members call it. `serves` gets the first part only.
 *
 * Blocks lie one after the other: block i of a side begins where block i-1 ends. `in` is never
 * written. The memory is one vector (`count` elements) or one block for every member:
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
 * Apart from these, `in` and `out` do not overlap. A side that a member does not have is NULL.
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

    /* since minor 9; `serves` gets device_type, too */
    int32_t device_type; /* DLPack's number for the memory of `in` and `out`; 0: host memory */
    int32_t device;      /* its number in this process; the team's (tutti_team_options) */
    void *stream; /* of the device's make, which orders the operation; NULL: the legacy one */
} tutti_collective;

/* tutti_engine_version.flags */
enum {
    TUTTI_ENGINE_SAME_MINOR = 1 << 0 /* members with another minor make no group */
};

/* The library that does the collectives or carries the messages, found at run time: «Open MPI» 4.1.4. */
typedef struct tutti_engine_version {
    uint32_t struct_size;
    uint32_t major; /* the same is needed on all members */
    uint32_t
        minor; /* the same is needed if major is 0 or `flags` say so; otherwise for messages only */
    uint32_t patch; /* for messages only */
    char name[64];  /* "Open MPI"; the same is needed on all members */
    uint32_t flags; /* since minor 8, preset to 0: TUTTI_ENGINE_… */
    uint32_t reserved;
} tutti_engine_version;

/** Options of tutti_collectives_ops.open. Pointers are valid until open returns, unless noted. */
typedef struct tutti_team_options {
    uint32_t struct_size;
    int32_t rank;               /* of this member in the group */
    int32_t size;               /* of the group */
    int32_t is_world;           /* 1: the group is a world; 0: it was made from another */
    const char *name;           /* the group's; valid until close */
    const char *run_id;         /* the job's name */
    const char *bind_address;   /* numeric address of the route to the rendezvous; may be NULL */
    const int32_t *world_ranks; /* [size] the members' ranks in the world; until close */
    const int32_t *host_of;     /* [size] members with the same number are on one host */
    tutti_endpoint *endpoint;   /* of this plugin's transport, open for the same group; or NULL */
    int64_t deadline_ns;        /* CLOCK_MONOTONIC: until when the group must be made */
    uint8_t token[16];          /* shared by the members of the group, and its own */

    /* since minor 9: the device of a team whose tensors lie on one; until close */
    int32_t device_type;                /* DLPack's number; 0: host memory, and none of these */
    int32_t device;                     /* its number in this process */
    const tutti_device_ops *device_ops; /* what drives it */
    tutti_accelerator *accelerator;     /* it, attached */
    uint8_t device_uuid[16];            /* as tutti_accelerator_info has it */
} tutti_team_options;

/** Options of tutti_collectives_ops.channel_open, since minor 9; valid until that returns. */
typedef struct tutti_message_channel_options {
    uint32_t struct_size;
    int32_t source;      /* the rank in the group of the member that sends */
    int32_t destination; /* of the one that receives; this member is one of the two */
    uint32_t reserved;
    const void *name;    /* by channel_name on the source */
    uint64_t name_bytes; /* how long it is */
} tutti_message_channel_options;

enum { TUTTI_CHANNEL_NAME_MAX = 256 };

/*
 * Whole operations, done by an engine. The core does the other operations with its own algorithms over
 * messages: those of a transport of the same plugin, or without one those of shm and tcp. The core never
 * passes reductions in fixed order, reductions made at run time, or calls that move nothing.
 *
 * A team does one operation at a time, in the order of the calls, which is the same on all members. The
 * core polls: no function waits for another member, except on a thread of the provider. open, form,
 * abort and close may take some milliseconds. An engine that can only block runs on such a thread, with
 * all signals blocked. The thread is left behind if `abort` cannot end it.
 *
 * An operation on a device (what->device_type) is over, for start and test, once its work is on what->stream, behind
 * what was there and before what comes later; it may run long after that. The core puts an event of the device
 * behind it and lets the next one start. While work of the team is on streams the core calls test with NULL
 * for the request: TUTTI_OK, or what has failed since. After abort each such stream goes on; what the operation
 * writes is undefined. Members start operations on devices in the same order, whatever their streams are. A reduction
 * on devices that the engine does not serve may come as several operations with one number: all_to_all, and all_gather or
 * gather, between which the core's kernels reduce.
 *
 * A channel carries the messages from one member to another whose bytes are on devices of both. The core matches them,
 * and hands each one to both ends, in the same order. Each end puts it on a stream of the core's, which orders nothing
 * else. A channel is independent of the team's operations and of other channels. Its functions are never called after
 * the team is closed.
 *
 * The core keeps deadlines, watches for dead members, and calls abort when the group has ended. The
 * engine need not find out which member is missing: an operation that cannot go on may stay
 * TUTTI_ERR_NOT_READY. If the engine knows that a member is lost, call host->peer_lost(), where the
 * label is the member's rank in the group.
 */
typedef struct tutti_collectives_ops {
    uint32_t struct_size;
    uint32_t threads; /* TUTTI_THREADS_…; MAIN_ONLY is refused */
    /** Since minor 9, 0 before: the memory that the engine takes, a bit for DLPack's number of each device type
     * (1 << 2: CUDA). 0: host memory alone. A group has one engine for host memory and one for a device type. */
    uint64_t device_types;

    /* required */
    /** 1: the engine does this operation; 0: the core does. The answer depends on the argument (its first
     * part) and on what is the same on all members (the engine's version) only. Every member calls it for
     * itself, also before any team exists, and all must get the same answer. `host` has log, config and
     * error only. */
    int32_t (*serves)(const tutti_host *host, void *host_self, const tutti_collective *what);
    /** This member's side of a team, without the others. `host` and `host_self` stay valid until
     * close. */
    tutti_status (*open)(const tutti_host *host, void *host_self, const tutti_team_options *options,
                         tutti_team **ret_team);
    /** Returns what the other members need to know: 0 bytes to 64 KiB, opaque to the core. Returns
     * TUTTI_ERR_INTERNAL if `capacity` is too small. `form` of the receiver checks the contents. */
    tutti_status (*address)(tutti_team *team, void *ret_address, uint64_t capacity,
                            uint64_t *ret_bytes);
    /** Begins to join the members. Gets all addresses in the order of ranks, this member's included; they
     * are valid until form_test has returned its result. */
    tutti_status (*form)(tutti_team *team, const void *const *addresses, const uint64_t *bytes);
    /** TUTTI_ERR_NOT_READY until operations may be started; then TUTTI_OK, or why not. */
    tutti_status (*form_test)(tutti_team *team);
    /** TUTTI_OK: taken (request->status may be final at once); TUTTI_ERR_BUSY: nothing was taken, try
     * again later. Sets request->status to TUTTI_ERR_NOT_READY while it goes on. `what` is valid until
     * start returns, but for in_counts and out_counts, which like the tensors' memory are valid until
     * the operation is complete or aborted. */
    tutti_status (*start)(tutti_team *team, const tutti_collective *what, tutti_request *request);
    /** Makes progress and returns request->status. Called very often, so it must be cheap. After an error
     * the core only aborts and closes the team. */
    tutti_status (*test)(tutti_team *team, tutti_request *request);
    /** The group has ended; no operation is started after this. TUTTI_OK: the memory of the operation in
     * flight is no longer used. TUTTI_ERR_NOT_READY: the engine may use it until close; the core then
     * warns that the memory is not free, and names the operation. Must not wait for a member. Called by
     * the thread that moves the group, never while another function of the team runs; also before form. */
    tutti_status (*abort)(tutti_team *team);
    /** Frees the team on this member, without waiting for others. The transport's endpoint is still
     * open. */
    void (*close)(tutti_team *team);

    /* optional: NULL, or not there in an older plugin */
    /** Returns the engine that will be used, and may load it; called before open. Members whose engines
     * differ in name or major make no group. If there is no engine, fail with the reason: the backend is
     * then not usable on this member. */
    tutti_status (*engine)(const tutti_host *host, void *host_self,
                           tutti_engine_version *ret_version);
    /** A descriptor of the team that becomes readable when test would make progress. The core waits for
     * events after arm, so it may stay readable before that. Without it the core polls, every 100 µs while
     * it has nothing else to do. */
    tutti_status (*wait_fd)(tutti_team *team, int32_t *ret_fd);
    /** The core calls it before it sleeps on wait_fd. Returns TUTTI_ARMED or TUTTI_EVENTS_PENDING. */
    int32_t (*arm)(tutti_team *team);
    /** The rank in the group of a member that the operation in flight waits for; -1: not known. Used in
     * messages only, after a deadline and in dumps. */
    int32_t (*waits_for)(tutti_team *team);

    /* since minor 8; optional */
    /** Writes UTF-8 about the engine on this host. `what` NULL: one line for `tutti info`, such as the library's version
     * and file. Otherwise lines for `tutti explain`: how the engine would do that collective (its first part) in a
     * group of what->size members on one host. It may start the engine for this, and take 5 s. Called in a process
     * of its own. `host` is as for `engine`. */
    void (*describe)(const tutti_host *host, void *host_self, const tutti_collective *what,
                     char *ret_words, uint64_t capacity);

    /* since minor 9; optional, for operations on devices */
    /** As start, for `count` operations that the engine launches as one: those of a batch. Each names its stream. None uses
     * what another one writes, so the engine may do them in any order. The request is that of all; none is taken unless all
     * are. `what` is valid until start_batch returns. All members give the same ones together. */
    tutti_status (*start_batch)(tutti_team *team, const tutti_collective *const *what,
                                uint32_t count, tutti_request *request);
    /** 1: operations may name a stream that is captured into a graph, which then runs them again and again, without the
     * engine's functions. 0: the core refuses such calls. */
    uint32_t captures;
    uint32_t reserved; /* 0 */

    /* since minor 9; optional, for messages between devices: all of these, or none */
    /** 1: channels of the team carry messages of so many bytes, and longer ones, as far as this member is concerned.
     * `team` NULL: of a team that this process would open, for tutti_explain(). Any thread may call it at any time. */
    int32_t (*carries)(tutti_team *team, uint64_t bytes);
    /** On the source, before it opens a channel: what both ends need to know, at most TUTTI_CHANNEL_NAME_MAX bytes.
     * The core takes it to the destination. */
    tutti_status (*channel_name)(tutti_team *team, void *ret_name, uint64_t capacity,
                                 uint64_t *ret_bytes);
    /** Begins to open this member's end. Does not wait for the other one; channel_test tells. */
    tutti_status (*channel_open)(tutti_team *team, const tutti_message_channel_options *options,
                                 tutti_message_channel **ret_channel);
    /** Between launch_begin and launch_end: the channel's next message, whose bytes at `memory` leave, or come there,
     * in the order of the stream. A channel has one stream. The messages of a launch may be one operation there.
     * TUTTI_OK: it is part of the launch. TUTTI_ERR_NOT_READY is not allowed. */
    tutti_status (*channel_move)(tutti_message_channel *channel, void *memory, uint64_t bytes,
                                 void *stream);
    /** TUTTI_OK: it is open, and all its messages are on its stream. TUTTI_ERR_NOT_READY: not yet. Else what has
     * failed, also of messages that are on streams. */
    tutti_status (*channel_test)(tutti_message_channel *channel);
    /** As abort, for the channel: its streams go on. */
    tutti_status (*channel_abort)(tutti_message_channel *channel);
    /** Frees this member's end, without waiting for the other one. */
    void (*channel_close)(tutti_message_channel *channel);
    /** Begins a launch of messages. Until launch_end the core calls channel_move alone, for channels of this team that
     * are open and have all earlier messages on their streams. Where it fails, launch_end is not called. */
    tutti_status (*launch_begin)(tutti_team *team);
    /** Puts the messages of the launch on their streams; called also if one of them was refused. TUTTI_OK: they are
     * there. TUTTI_ERR_NOT_READY: channel_test of each channel tells. Else all channels of the launch have failed.
     * Other members may launch the same messages together or apart, so those of different channels must not wait for
     * each other. The first launch of a channel has messages of this channel alone, and may wait for its other end. */
    tutti_status (*launch_end)(tutti_team *team);

    /* since minor 9; optional, for memory of the device that the engine is to know beforehand: both, or none. The core
     * calls them without its progress lock, and no other function of the team meanwhile; channels go on. */
    /** Operations of the team may lie in [address, address + bytes) from now on, and the engine may prepare for that.
     * `address` NULL: it allocates the memory, aligned to 256. Does not wait for a member. Members register together.
     * Either all or none of them use such memory in one operation. BLOCKS, as functions of tutti_device_ops.
     * TUTTI_ERR_UNSUPPORTED: the engine's library cannot do it. */
    tutti_status (*memory_register)(tutti_team *team, void *address, uint64_t bytes,
                                    void **ret_address, tutti_team_memory **ret_memory);
    /** Ends that, and frees memory that the engine allocated. No operation of the team uses it any more, unless the
     * team was aborted: then the engine frees its own once that is over, and lets go of the caller's before it
     * returns. The core calls it for each one before close. BLOCKS, as functions of tutti_device_ops. */
    void (*memory_release)(tutti_team *team, tutti_team_memory *memory);
} tutti_collectives_ops;

/* ---- bootstrap ---- */

typedef struct tutti_bootstrap tutti_bootstrap; /* the provider's own */

/** The rank and size of this process, from its launcher. */
typedef struct tutti_identity {
    uint32_t struct_size;
    int32_t rank;       /* of this process among all that the launcher started */
    int32_t size;       /* how many it started */
    int32_t local_rank; /* among those on this process's host; -1: not known */
    int32_t local_size; /* how many are on this process's host; -1: not known */
    char job[96];       /* the same on all, another for each job; printable ASCII */
} tutti_identity;

/*
 * Rank, size and a store for processes that a launcher started without RANK, WORLD_SIZE and a store.
 * tutti_init() then asks the plugin of TUTTI_BOOTSTRAP, else that of the backend, else the one for the
 * launcher's variables. `broadcast` sends the store's address from rank 0 to all.
 *
 * These functions may wait, until the deadline given. Called once for each world, from the thread of
 * tutti_init(). There may be several worlds, one after the other.
 */
typedef struct tutti_bootstrap_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /* required */
    /** 1: a launcher that the provider knows started this process. Looks at environment variables only,
     * and loads or opens nothing. */
    int32_t (*detect)(const tutti_host *host, void *host_self);
    /** Connects to the launcher. `host` has log, now_ns, allocate, release, config and error, and is
     * valid until close. */
    tutti_status (*open)(const tutti_host *host, void *host_self, int64_t deadline_ns,
                         tutti_identity *ret_identity, tutti_bootstrap **ret_bootstrap);
    /** Sends `bytes` of rank 0 to all: at most 1 KiB, with the same `count` everywhere. Every process
     * calls it. */
    tutti_status (*broadcast)(tutti_bootstrap *bootstrap, void *bytes, uint64_t count,
                              int64_t deadline_ns);
    /** Frees it; the launcher may still be needed by the plugin's other providers. */
    void (*close)(tutti_bootstrap *bootstrap);
} tutti_bootstrap_ops;

#ifdef __cplusplus
}
#endif
#endif
