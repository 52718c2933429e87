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
                               "local=NAME,remote=NAME"; rules may follow, as the guide says */
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
} tutti_init_options;

/** Every option at its default. */
#define TUTTI_INIT_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(tutti_init_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                \
    }

/**
 * Meets the other members, agrees with them on a backend and returns the world: a group of all.
 * Collective: every member calls it. Returns when all have committed, or with the same error on
 * all. options may be NULL: everything from the environment (RANK, WORLD_SIZE, MASTER_ADDR, …).
 *
 * May be called again after tutti_group_destroy(), at once, in the same store and also where rank 0 serves it.
 * Worlds of one name in one store are told apart by how often each process has made one as that rank; so worlds of
 * other members in the same store each need a name (`group_name`), or a run_id.
 *
 * Errors: INVALID_ARGUMENT (bad options or environment, unknown backend with the names that are
 * there),
 * PLUGIN, DENIED (a plugin's file is not trusted), STORE, TIMEOUT (names the members that did not
 * come), PEER_LOST (a member died, or rank 0, which serves the store, did not come), STALE (this member
 * belongs to an earlier attempt), MISMATCH (settings that must agree differ, with both sides' values),
 * UNSUPPORTED, SYSTEM.
 */
TUTTI_API tutti_status tutti_init(const tutti_init_options *options, tutti_group **ret_world);

/**
 * The world that the first tutti_init() of the default context made, until it is destroyed; NULL:
 * there is none. Still its maker's: it is destroyed once. Other functions do not take NULL for it,
 * since NULL is what tutti_group_new() gives to those who are not in the group.
 *
 * Semantics: torch.distributed.group.WORLD, which stands for `group=None` there.
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
 * returns when all have come. Other members of the parent may call it, and return at once. A
 * member's calls with the same list are matched in their order. Several threads may make groups at
 * once; where those have members in common they need names, as one thread's calls are expected in an
 * order that all its members can follow.
 *
 * Members meet in the world's store, which has to be there still: it ends, where rank 0 serves it,
 * with the last of rank 0's groups.
 *
 * Errors: INVALID_ARGUMENT; the parent's verdict, when it has failed; STORE; TIMEOUT (names those who
 * did not come); MISMATCH (the options differ); PEER_LOST; and those of tutti_init().
 *
 * Semantics: torch.distributed.new_group with use_local_synchronization; MPI_Comm_create_group.
 */
TUTTI_API tutti_status tutti_group_new(tutti_group *parent, const int32_t *ranks, int32_t n,
                                       const tutti_group_options *options, tutti_group **ret_group);

/**
 * Divides `parent`: members that bring the same `color` make a group, in the order of `key`, and of
 * their ranks where keys are equal. A negative color: this member is in none, and gets NULL.
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
 * What the members `ranks` of `from` are called in `to`: `ret_ranks`, of n, -1 where one is not in
 * `to`. Both groups come from the same world, which may be one of them. Local.
 *
 * Errors: INVALID_ARGUMENT (a rank that `from` does not have, groups of different worlds).
 *
 * Semantics: MPI_Group_translate_ranks; torch.distributed.get_group_rank and get_global_rank.
 */
TUTTI_API tutti_status tutti_group_translate(const tutti_group *from, const int32_t *ranks,
                                             int32_t n, const tutti_group *to, int32_t *ret_ranks);

/**
 * Leaves the group: says bye to the other members, releases what the group holds and frees the
 * handle, whatever the status is. Blocks until this member's own operations are complete or
 * failed, not for the other members (the host of a tcp store waits at most 5 s for them). If its
 * last collective had a root it waits 200 ms at most, and over an engine of whole operations (mpi,
 * gloo) after any collective half a second at most, until the others have made it, too, or have
 * left; after a difference 2 s at most for the verdict.
 * Returns the group's verdict if it had failed, which may be that this member left while others
 * called on: what it had called itself was complete. TUTTI_ERR_MISMATCH also where that comparison
 * found a difference. NULL is allowed.
 */
TUTTI_API tutti_status tutti_group_destroy(tutti_group *group);

/** This member's rank in the group, 0 to size - 1; -1 for NULL. */
TUTTI_API int32_t tutti_group_rank(const tutti_group *group);
/** The number of members; 0 for NULL. */
TUTTI_API int32_t tutti_group_size(const tutti_group *group);
/** The name, as messages have it: "world", "world{0,2-5}", or what was given. "" for NULL. Valid as long as the
 * group. */
TUTTI_API const char *tutti_group_name(const tutti_group *group);
/** What the members are called in the world that the group was made from: `ret_ranks`, of the group's size. Also
 * when the world was destroyed. Semantics: torch.distributed.get_process_group_ranks. */
TUTTI_API tutti_status tutti_group_world_ranks(const tutti_group *group, int32_t *ret_ranks);
/** The default time-out of calls, 0 for NULL. */
TUTTI_API int64_t tutti_group_timeout(const tutti_group *group);
/** Sets this member's default time-out of calls that are made from now on, and of groups that are made from
 * this one; 1 or more. From any thread. Semantics: torch.distributed's ProcessGroup._set_default_timeout. */
TUTTI_API tutti_status tutti_group_set_timeout(tutti_group *group, int64_t timeout_ms);
/** The choice in words: "shm", "tcp", "shm+tcp", a plugin's name; "self" for one member. Valid as
 * long as the group. */
TUTTI_API const char *tutti_group_backend(const tutti_group *group);

/** States in the order in which a group passes them. */
enum { TUTTI_GROUP_READY = 1, TUTTI_GROUP_FAILED = 2 };

/** What tutti_group_status() tells. */
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
    const char *words; /* the verdict in words, the same on all survivors; "" while ready */
} tutti_group_info;

/** How the group is, as far as this member has heard; takes in what has arrived, waits for nothing.
 * ret_info->struct_size must be set. */
TUTTI_API tutti_status tutti_group_status(const tutti_group *group, tutti_group_info *ret_info);

/**
 * Ends the group on all members: each call, also one that waits, returns TUTTI_ERR_ABORTED with `reason`
 * (copied, with '?' for control characters and what is no UTF-8; NULL: none given) within 100 ms; on several
 * hosts 60 ms later for each further one of the lowest ranks that does not answer, as it is stopped or
 * computes. From any thread, also while another waits.
 */
TUTTI_API tutti_status tutti_group_abort(tutti_group *group, const char *reason);

/** A context of its own, so that several sets of ranks live in one process. Destroyed by
 * tutti_context_destroy(). Errors: NO_MEMORY, SYSTEM. */
TUTTI_API tutti_status tutti_context_create(tutti_context **ret_context);
/** All groups of the context must have been destroyed and all works freed, else BUSY. NULL is
 * allowed. */
TUTTI_API tutti_status tutti_context_destroy(tutti_context *context);

/**
 * One descriptor per context (an eventfd, NULL: the default context): readable when a work that was
 * started with a callback or watched with tutti_work_watch() has completed; tutti_dispatch()
 * empties it and runs the callbacks that are due. For epoll, GLib, libuv, asyncio. Owned by tutti.
 */
TUTTI_API tutti_status tutti_context_fd(tutti_context *context, int *ret_fd);
/** Runs the callbacks that are due in this thread, and empties the descriptor. NULL: the default
 * context. Waits for nothing. */
TUTTI_API tutti_status tutti_dispatch(tutti_context *context);

#ifdef __cplusplus
}
#endif
#endif
