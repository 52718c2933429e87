/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and groups. A context holds what a process needs to talk (plugins, endpoints, engine,
 * doorbell); tutti_init() makes a default one. A group is an ordered set of members; a member's rank is
 * its position. Every rank argument of this API is a rank of the group in the same call.
 *
 * Semantics: torch.distributed.init_process_group and destroy_process_group.
 */
#ifndef TUTTI_GROUP_H
#define TUTTI_GROUP_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>
#include <tutti/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a process needs to talk. Opaque. */
typedef struct tutti_context tutti_context;
/** An ordered set of members. Opaque. */
typedef struct tutti_group tutti_group;

/*
 * Options begin with their size; TUTTI_INIT_OPTIONS_INIT fills it and zero everywhere else means
 * the default. Members are only ever appended.
 */
typedef struct tutti_init_options {
    uint32_t struct_size;
    int32_t world_size;   /* 0: from the environment; with rank: given */
    int32_t rank;         /* meaningful when world_size > 0 */
    uint32_t reserved;    /* 0 */
    const char *backend;  /* NULL: TUTTI_BACKEND, else "auto". "auto", a name, or
                               "local=NAME,remote=NAME"; "cpu:" and "cuda:" may stand before, and rules
                               follow, as the guide says */
    const char *init_url; /* NULL: "env://". "env://", "tcp://HOST:PORT", "file:///PATH", each with
                               ?rank=R&world_size=N where the environment does not tell */
    tutti_store *store;   /* instead of init_url; rank and world_size must be given; referenced */
    const char *run_id;   /* NULL: TUTTI_RUN_ID, TORCHELASTIC_RUN_ID, else "none" */
    const char *group_name; /* NULL: "world"; used in messages; 255 bytes at most of UTF-8 without
                               control characters */
    int64_t timeout_ms;     /* 0: 30 min; the group's default deadline, init's own included */
    tutti_context *context; /* NULL: the default context of this process */
    const char *wrap;       /* NULL: TUTTI_WRAP, else none. Wrappers by name, the outermost first:
                               "trace,check" */
    const char *
        device; /* NULL: TUTTI_DEVICE, else the device with the number of the local rank, modulo their
                               number. "cuda:1": where this rank's tensors lie that are not in host memory */
} tutti_init_options;

/** Every option at its default. */
#define TUTTI_INIT_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(tutti_init_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                             \
    }

/**
 * Meets the other members, agrees with them on a backend and returns the world, a group of all ranks.
 * Collective: every member calls it. Returns when all have joined, or with the same error on all.
 * options NULL: everything comes from the environment (RANK, WORLD_SIZE, MASTER_ADDR, …).
 *
 * May be called again after tutti_group_destroy(), at once and in the same store, also if rank 0 serves
 * it. Worlds of one name in one store are numbered by how often each process has made one as that rank.
 * Worlds of different members in one store therefore each need a name (`group_name`) or a run_id.
 *
 * Errors: INVALID_ARGUMENT (bad options or environment), PLUGIN (a backend is unknown or cannot be used;
 * the message lists the available ones), DENIED (a plugin's file is not trusted), STORE, TIMEOUT (names
 * the missing members), PEER_LOST (a member died, or rank 0, which serves the store, is missing), STALE
 * (this member belongs to an earlier attempt), MISMATCH (settings that must agree differ; the message
 * has both values), UNSUPPORTED, SYSTEM.
 */
TUTTI_API tutti_status tutti_init(const tutti_init_options *options, tutti_group **ret_world);

/**
 * The world that the first tutti_init() of the default context made, until it is destroyed. NULL:
 * there is none. The caller does not own it: destroy the world once. Other functions do not take NULL
 * for it, since NULL is the result of tutti_group_new() on ranks that are not in the group.
 *
 * Semantics: torch.distributed.group.WORLD, which is also `group=None` there.
 */
TUTTI_API tutti_group *tutti_default_group(void);

/** 1 while there is a default group, else 0. Semantics: torch.distributed.is_initialized. */
TUTTI_API int32_t tutti_is_initialized(void);

/** Options of tutti_group_new() and tutti_group_split(). Members are only appended. */
typedef struct tutti_group_options {
    uint32_t struct_size;
    uint32_t reserved;   /* 0 */
    const char *backend; /* NULL: what the parent was asked for. As in tutti_init_options */
    const char *name; /* NULL: made of the world's name and ranks, "world{0,2-5}". Used in messages,
                            and tells apart groups of the same members; 255 bytes at most of UTF-8
                            without control characters */
    int64_t timeout_ms; /* 0: the parent's; the group's default deadline, its making included */
} tutti_group_options;

/** Every option at its default. */
#define TUTTI_GROUP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(tutti_group_options), 0, 0, 0, 0                                                    \
    }

/**
 * Makes a group of members of `parent`, which may be any group.
 *
 * ranks    ranks of `parent`, each at most once; their order is the order of the new ranks. NULL
 *          with n 0: all of them.
 * options  NULL: as the parent.
 * ret_group  the group, to be destroyed by tutti_group_destroy(), also after its parent; NULL for a
 *          caller that is not in the list.
 *
 * Collective over the members of the list: each calls it with the same list, name and backend, and
 * returns when all have called. Other members of the parent may call it, and return at once. Calls
 * with the same list match in their order. Several threads may make groups at once. If those groups
 * have members in common, give them names.
 *
 * Members meet in the world's store, which must still exist. If rank 0 serves it, it ends with the last
 * of rank 0's groups.
 *
 * Errors: INVALID_ARGUMENT; the parent's error, if it has failed; STORE; TIMEOUT (names the missing
 * members); MISMATCH (the options differ); PEER_LOST; and those of tutti_init().
 *
 * Semantics: torch.distributed.new_group with use_local_synchronization; MPI_Comm_create_group.
 */
TUTTI_API tutti_status tutti_group_new(tutti_group *parent, const int32_t *ranks, int32_t n,
                                       const tutti_group_options *options, tutti_group **ret_group);

/**
 * Divides `parent`: members with the same `color` make a group. `key` sets the order of the new ranks;
 * equal keys keep the order of the parent's ranks. With a negative color a member joins no group and
 * gets NULL.
 *
 * Collective over the parent, in the order of its collectives.
 *
 * Errors: those of tutti_all_reduce() on the parent and of tutti_group_new().
 *
 * Semantics: MPI_Comm_split, with MPI_UNDEFINED for every negative color.
 */
TUTTI_API tutti_status tutti_group_split(tutti_group *parent, int32_t color, int32_t key,
                                         const tutti_group_options *options,
                                         tutti_group **ret_group);

/**
 * Translates n `ranks` of the group `from` into ranks of the group `to`; -1 in `ret_ranks` means that
 * the member is not in `to`. Both groups come from the same world, or are that world. Local.
 *
 * Errors: INVALID_ARGUMENT (a rank that `from` does not have, groups of different worlds).
 *
 * Semantics: MPI_Group_translate_ranks; torch.distributed.get_group_rank and get_global_rank.
 */
TUTTI_API tutti_status tutti_group_translate(const tutti_group *from, const int32_t *ranks,
                                             int32_t n, const tutti_group *to, int32_t *ret_ranks);

/**
 * Leaves the group, releases its resources and frees the handle, whatever the returned status is.
 * Waits until this member's own operations have completed or failed, but not for the other members.
 * A process that serves a tcp store waits up to 5 s for them. If the last collective had a root, the
 * call waits up to 200 ms until the others have made it, too, or have left. In a group of several hosts,
 * or with a wrapper, it waits up to 50 ms until its leave message is known. Over an engine of whole
 * operations (mpi, gloo), it waits up to half a second after any collective. If they called different
 * things, it waits up to 2 s for the group's error. Over tcp, the peers' kernels have up to 100 ms more
 * to confirm what was sent.
 * Returns the group's error if it failed. That may be that this member left while others made further
 * calls; its own calls were complete then. Returns TUTTI_ERR_MISMATCH if the comparison found a
 * difference. NULL is allowed.
 */
TUTTI_API tutti_status tutti_group_destroy(tutti_group *group);

/** This member's rank in the group, 0 to size - 1; -1 for NULL. */
TUTTI_API int32_t tutti_group_rank(const tutti_group *group);
/** The number of members; 0 for NULL. */
TUTTI_API int32_t tutti_group_size(const tutti_group *group);
/** The group's name in messages: "world", "world{0,2-5}", or the given one. "" for NULL. Valid as long as
 * the group. */
TUTTI_API const char *tutti_group_name(const tutti_group *group);
/** Writes the members' ranks in the world to `ret_ranks`, which has room for the group's size. Also after
 * the world was destroyed. Semantics: torch.distributed.get_process_group_ranks. */
TUTTI_API tutti_status tutti_group_world_ranks(const tutti_group *group, int32_t *ret_ranks);
/** The default timeout of calls in milliseconds, 0 for NULL. */
TUTTI_API int64_t tutti_group_timeout(const tutti_group *group);
/** Sets this member's default timeout in milliseconds, 1 or more, of later calls and of groups that are
 * made from this one. From any thread. Semantics: torch.distributed's ProcessGroup._set_default_timeout. */
TUTTI_API tutti_status tutti_group_set_timeout(tutti_group *group, int64_t timeout_ms);
/** The chosen backend: "shm", "tcp", "shm+tcp", a plugin's name; "self" for one member. Valid as long as
 * the group. */
TUTTI_API const char *tutti_group_backend(const tutti_group *group);

/** States in the order in which a group passes them. */
enum { TUTTI_GROUP_READY = 1, TUTTI_GROUP_FAILED = 2 };

/** The secret by which the members of a group have proven themselves to each other. */
enum {
    TUTTI_PROOF_NONE = 0,     /* none: the group is open, or has one member */
    TUTTI_PROOF_FILE = 1,     /* that of TUTTI_SECRET_FILE */
    TUTTI_PROOF_VARIABLE = 2, /* that of TUTTI_SECRET; `tutti run` sets it */
    TUTTI_PROOF_LAUNCHER = 3, /* that of the launcher: mpirun, srun */
    TUTTI_PROOF_OWN_FILE = 4  /* that of the user's own file */
};

/** Whether others can read what members send each other (TUTTI_TLS). */
enum {
    TUTTI_ENCRYPTION_NONE = 0, /* messages are not encrypted, or the group has one member */
    /* a backend between hosts does not encrypt, or the group is open */
    TUTTI_ENCRYPTION_PARTLY = 1,
    TUTTI_ENCRYPTION_FULL = 2 /* control connections and backends between hosts encrypt */
};

/** The result of tutti_group_status(). */
typedef struct tutti_group_info {
    uint32_t struct_size; /* set by the caller */
    int32_t state;        /* TUTTI_GROUP_… */
    tutti_status verdict; /* TUTTI_OK while ready */
    int32_t culprit;      /* the rank that the verdict is about, -1: none */
    uint64_t completed;   /* sequence of the last collective that completed here, 0: none */
    int32_t hosts;        /* hosts of the layout */
    int32_t local_size;   /* members on this host */
    int32_t local_rank;   /* this member's place among those */
    int32_t reserved;
    const char *words;  /* the error message, the same on all survivors; "" while ready */
    int32_t proof;      /* TUTTI_PROOF_…, where this member has the secret from */
    int32_t encryption; /* TUTTI_ENCRYPTION_… */
} tutti_group_info;

/** The group's state, as far as this member knows. Reads what has arrived and never waits.
 * ret_info->struct_size must be set. */
TUTTI_API tutti_status tutti_group_status(const tutti_group *group, tutti_group_info *ret_info);

/**
 * Ends the group on all members: every call, also one that waits, returns TUTTI_ERR_ABORTED with
 * `reason` within 100 ms. On several hosts it takes 60 ms longer for each of the lowest ranks that does
 * not answer because it is stopped or computes. `reason` is copied, with '?' for control characters and
 * invalid UTF-8; NULL: no reason. From any thread, also while another waits.
 */
TUTTI_API tutti_status tutti_group_abort(tutti_group *group, const char *reason);

/** Makes a context, so that one process can hold several sets of ranks. Destroy it with
 * tutti_context_destroy(). Errors: NO_MEMORY, SYSTEM. */
TUTTI_API tutti_status tutti_context_create(tutti_context **ret_context);
/** Destroys a context. First destroy all its groups and free all its works; otherwise BUSY. NULL is
 * allowed. */
TUTTI_API tutti_status tutti_context_destroy(tutti_context *context);

/**
 * The context's descriptor, an eventfd (context NULL: the default context). It becomes readable when a
 * work completes that has a callback or that tutti_work_watch() watches. tutti_dispatch() empties it
 * and runs the callbacks that are due. For epoll, GLib, libuv, asyncio. tutti owns the descriptor.
 */
TUTTI_API tutti_status tutti_context_fd(tutti_context *context, int *ret_fd);
/** Runs the callbacks that are due, in this thread, and empties the descriptor. NULL: the default
 * context. Never waits. */
TUTTI_API tutti_status tutti_dispatch(tutti_context *context);

#ifdef __cplusplus
}
#endif
#endif
