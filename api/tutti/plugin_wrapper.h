/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin ABI for wrappers, which intercept calls or transports; since minor 2. <tutti/plugin.h> includes it. */
#ifndef TUTTI_PLUGIN_WRAPPER_H
#define TUTTI_PLUGIN_WRAPPER_H

#include <tutti/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_wrapper tutti_wrapper; /* the wrapper's own: one for each world */

/* tutti_call.flags */
enum {
    TUTTI_CALL_MESSAGE = 1 << 0,     /* send or recv; otherwise a collective */
    TUTTI_CALL_SAME_RESULT = 1 << 1, /* afterwards `out` holds the same bits on every member */
    /* a tensor of this member lies on a device, and the memory here is its copy on the host; since minor 8 */
    TUTTI_CALL_STAGED = 1 << 2
};

/* A group as this member sees it. Valid as long as the group. */
struct tutti_wrapped_group {
    uint32_t struct_size;
    int32_t rank, size; /* of this member in the group */
    uint32_t reserved;
    const char *name;           /* "world" */
    const int32_t *world_ranks; /* [size] the members' ranks in the world */
    void *core;                 /* the core's */
};

/*
 * A collective or message as the program called it, with the names and numbers of the public headers.
 * Valid until the function that gets it returns; the tensors' memory until `end` has returned.
 */
typedef struct tutti_call {
    uint32_t struct_size;
    uint32_t flags;                   /* TUTTI_CALL_… */
    uint64_t number;                  /* of this call in this process; the same in begin and end */
    const char *operation;            /* "all_reduce", "send" */
    const tutti_wrapped_group *group; /* that it was called on */
    uint64_t sequence; /* of the group's collectives, or of this member's messages: 1, 2, … */
    uint64_t tag;      /* of a message */
    uint64_t count;    /* elements: of the vector, of each block, of the message */
    uint32_t dtype;    /* tutti_dtype; 0: none */
    int32_t op;        /* tutti_reduce_op; -1: none */
    int32_t peer;      /* root or peer, a rank of the group; -1: none, or any source */
    uint32_t reserved;
    const char *dtype_name; /* "f32"; "" when none */
    const char *op_name;    /* "sum"; "" when none */
    const char *provider;   /* the backend: "shm", "shm+tcp" */
    const char *algorithm;  /* of the core: "all_reduce_ring" */
    const void *in;         /* contiguous; NULL when this member gives nothing, or in_blocks */
    uint64_t in_bytes;      /* of `in`, or of all in_blocks */
    void *out;              /* contiguous; may be `in`; NULL when it gets nothing, or out_blocks */
    uint64_t out_bytes;     /* of `out`, or of all out_blocks */
    int64_t begun_ns;       /* CLOCK_MONOTONIC, when the program called */

    /* A list of tensors, or blocks of different sizes: one for each member of the group, each
     * contiguous; NULL otherwise. */
    const void *const *in_blocks;
    const uint64_t *in_block_bytes;  /* of each; NULL: in_bytes / group->size */
    void *const *out_blocks;         /* as in_blocks */
    const uint64_t *out_block_bytes; /* of each; NULL: out_bytes / group->size */
} tutti_call;

/** Options of tutti_wrapper_ops.open. */
typedef struct tutti_wrapper_options {
    uint32_t struct_size;
    int32_t rank, size; /* of the world */
    uint32_t reserved;
    const char *run_id; /* the job's name; valid until open returns */
} tutti_wrapper_options;

/*
 * A wrapper intercepts calls, transports, or both. The wrappers of TUTTI_WRAP nest in the order given:
 * the first sees a call begin first and end last, and its transport is the outermost.
 *
 * begin, end and the functions of a wrapped transport are called under the lock that orders all calls
 * of a context. They may take the time to read a tensor, and must not wait. `transport` may run at the
 * same time, when a thread makes a group. Times are CLOCK_MONOTONIC in ns.
 */
typedef struct tutti_wrapper_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /* required */
    /** Refuse invalid options here: tutti_init() then fails on all members, with the message given to
     * host->error(). */
    tutti_status (*open)(const tutti_host *host, void *host_self,
                         const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper);
    /** After the last call and the last transport. */
    void (*close)(tutti_wrapper *wrapper);

    /* optional */
    /** Before anything of the call has left this member. An error fails the group, with the message given
     * to host->error(). `ret_hold_ns` (preset to 0): how long to delay a collective, while other groups
     * and messages go on. */
    tutti_status (*begin)(tutti_wrapper *wrapper, const tutti_call *call, int64_t *ret_hold_ns);
    /** After the call, with its `status`. An error fails the group if the call had not failed. */
    tutti_status (*end)(tutti_wrapper *wrapper, const tutti_call *call, tutti_status status,
                        int64_t end_ns);
    /**
     * Puts `ret_ops` and `ret_endpoint` in front of an endpoint that `inner` has just opened for the
     * backend `name`, for `group`; TUTTI_ERR_UNSUPPORTED: not in front of this one. `ret_ops` lives
     * until its close, which also closes the inner one; its `open` is never called. It has no
     * capability that the inner one lacks. Peers may be the inner's own; the `label` of connect is the
     * peer's rank in the group.
     */
    tutti_status (*transport)(tutti_wrapper *wrapper, const tutti_wrapped_group *group,
                              const char *name, const tutti_transport_ops *inner,
                              tutti_endpoint *inner_endpoint, const tutti_transport_ops **ret_ops,
                              tutti_endpoint **ret_endpoint);
    /** On the group's first member: the bytes that the wrapper of member `rank` sent (tutti_host.tell).
     * They come from another process: check them. An error fails the group, with the message given to
     * host->error(). */
    tutti_status (*hear)(tutti_wrapper *wrapper, const tutti_wrapped_group *group, int32_t rank,
                         const void *bytes, uint64_t count);
    /** Whether members that have not left will send more. Destroying the group then waits for it, up to
     * two seconds. */
    int32_t (*expects)(tutti_wrapper *wrapper, const tutti_wrapped_group *group);
    /** The group ends; no function is called for it after this. */
    void (*leave)(tutti_wrapper *wrapper, const tutti_wrapped_group *group);
} tutti_wrapper_ops;

#ifdef __cplusplus
}
#endif
#endif
