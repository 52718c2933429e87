/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the core. Each file holds one: its descriptor, its cost and what it emits.
 *
 * An algorithm knows members, bytes and places; never a dtype, a socket or a work. emit() writes
 * the schedule of one member and may be called on a view (schedule_view()), which is how composed
 * algorithms reuse the plain ones. Every algorithm of all_reduce leaves the same bits on
 * every member.
 *
 * The inline algorithms (at most 4 KiB on one host's mapped memory) have no schedule: they are a
 * pair of functions, post and poll, that never wait.
 */
#ifndef TUTTI_ALGORITHM_ALGORITHM_H
#define TUTTI_ALGORITHM_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "algorithm/layout.h"
#include "base/call.h"
#include "work/mapped.h"
#include "work/runner.h"
#include "work/schedule.h"

/* Bytes up to which an algorithm is preferred; part of what members agree on. */
struct thresholds {
    uint64_t inline_max; /* one line each way */
    uint64_t
        one_phase_max; /* staged: who wants the result reduces all of it; shared by the members */
    uint64_t recursive_doubling_max; /* messages */
    uint64_t ring_crossover; /* messages, at 3 members; grows with the cube of the members */
    uint64_t binomial_below; /* messages */
    uint64_t direct_below;   /* messages: everybody sends to everybody */
    /* Messages, from how many members on: blocks that travel together, below so many bytes each. */
    int tree_from; /* gather and scatter */
    uint64_t tree_below;
    int bruck_from; /* all_gather (below direct_below) and all_to_all */
    uint64_t bruck_below;
};

extern const struct thresholds thresholds_default;

/* A call as algorithms see it. */
struct request {
    struct place in, out; /* of the vector; a broadcast has it at `out` on every member */
    uint64_t bytes;       /* of the vector, or of each block where there is one for every member; a
                           * multiple of the schedule's element_bytes */
    const uint64_t *in_bytes, *out_bytes; /* of each block, where they are uneven; else NULL */
    int root;    /* rank in the view; mapped algorithms: index of the mate */
    bool finish; /* the op has a last step on the reduced values (reduce_finish) */
    const int *
        mate_blocks; /* mapped gather, scatter and all_to_all: which block is each mate's; NULL: the
                                  * mate's own number */
    const struct layout *layout;         /* composed algorithms: the group's */
    const struct thresholds *thresholds; /* composed algorithms: to choose between hosts */
};

/* The blocks of the operations that have one for every member. */
static inline uint64_t in_block_bytes(const struct request *req, int block)
{
    return req->in_bytes ? req->in_bytes[block] : req->bytes;
}

static inline uint64_t out_block_bytes(const struct request *req, int block)
{
    return req->out_bytes ? req->out_bytes[block] : req->bytes;
}

/* Where the block of a mate lies: the caller's own, or one after another in scratch. */
static inline struct place mate_in_block(const struct request *req, int mate)
{
    const int block = req->mate_blocks ? req->mate_blocks[mate] : mate;

    return req->in.kind == PLACE_SCRATCH ? place_after(req->in, (uint64_t)block * req->bytes)
                                         : place_in_block(block, 0);
}

static inline struct place mate_out_block(const struct request *req, int mate)
{
    const int block = req->mate_blocks ? req->mate_blocks[mate] : mate;

    return req->out.kind == PLACE_SCRATCH ? place_after(req->out, (uint64_t)block * req->bytes)
                                          : place_out_block(block, 0);
}

/* Whether blocks are so short that those of a host, or of a subtree, travel in one message. */
static inline bool blocks_together(const struct thresholds *thresholds, uint64_t bytes)
{
    return bytes < thresholds->tree_below;
}

/* What a call costs on the longest way through it, in the terms of the model. Whole numbers: members
 * choose by it, and what one CPU rounds another way than the next would lead them apart. */
struct cost {
    uint64_t messages; /* that follow one another */
    uint64_t at_once;  /* further ones that a member sends or receives without waiting for others */
    uint64_t message_bytes;
    uint64_t hand_overs;   /* through mapped memory that follow one another */
    uint64_t mapped_bytes; /* copied, into or out of mapped memory or scratch, or read from there */
    uint64_t reduced_bytes;
};

enum algorithm_kind {
    ALGORITHM_ALONE,    /* one member */
    ALGORITHM_INLINE,   /* mapped memory of one host, post and poll */
    ALGORITHM_MAPPED,   /* mapped memory of one host, a schedule */
    ALGORITHM_MESSAGES, /* messages between any members */
    ALGORITHM_COMPOSED, /* mapped memory inside hosts, messages between them */
    ALGORITHM_NATIVE    /* the whole operation by an engine; no schedule */
};

/* One inline call. */
struct inline_call {
    struct mapped_call announce;
    struct blocks in, out; /* as those of a run */
    uint64_t bytes;        /* of the vector or of each block; all of the payload is at most
                            * MAPPED_PAYLOAD_MAX */
    uint64_t count;        /* elements in `bytes` */
    int root;              /* index of the mate */
    const struct kernels *kernels;
};

/*
 * post: TUTTI_OK when my line is out (waking mates is the caller's); TUTTI_ERR_NOT_READY: no
 * room yet, nothing happened. poll, after post: TUTTI_OK when the call is complete. Both:
 * TUTTI_ERR_NOT_READY leaves the mate that is missing in mapped->culprit; TUTTI_ERR_MISMATCH and
 * TUTTI_ERR_INTERNAL as mapped_meet().
 */
typedef tutti_status (*inline_fn)(struct mapped *mapped, const struct inline_call *call);

struct algorithm {
    const char *name;
    enum operation operation;
    enum algorithm_kind kind;
    tutti_status (*emit)(struct schedule *sched,
                         const struct request *req); /* NULL: inline, native */
    /* The same on all members: nothing of who this one is. */
    struct cost (*cost)(const struct layout *layout, uint64_t bytes);
    inline_fn post, poll; /* inline */
};

/* The plain algorithms over messages for `size` members; blocks of one size. */
const struct algorithm *all_reduce_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes);
const struct algorithm *broadcast_by_messages(const struct thresholds *thresholds, int size,
                                              uint64_t bytes);
const struct algorithm *all_gather_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes);
const struct algorithm *gather_by_messages(const struct thresholds *thresholds, int size,
                                           uint64_t bytes);
const struct algorithm *scatter_by_messages(const struct thresholds *thresholds, int size,
                                            uint64_t bytes);
const struct algorithm *all_to_all_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes);
const struct algorithm *reduce_by_messages(const struct thresholds *thresholds, int size,
                                           uint64_t bytes);

extern const struct algorithm all_reduce_alone_algorithm, all_reduce_inline_algorithm,
    all_reduce_staged_algorithm, all_reduce_staged_parts_algorithm,
    all_reduce_recursive_doubling_algorithm, all_reduce_halving_doubling_algorithm,
    all_reduce_ring_algorithm, all_reduce_direct_algorithm, all_reduce_composed_algorithm;
extern const struct algorithm broadcast_alone_algorithm, broadcast_inline_algorithm,
    broadcast_mapped_algorithm, broadcast_binomial_algorithm,
    broadcast_scatter_all_gather_algorithm, broadcast_composed_algorithm;
extern const struct algorithm barrier_alone_algorithm, barrier_inline_algorithm,
    barrier_dissemination_algorithm, barrier_composed_algorithm;
extern const struct algorithm monitored_barrier_alone_algorithm, monitored_barrier_direct_algorithm;
extern const struct algorithm reduce_alone_algorithm, reduce_inline_algorithm,
    reduce_staged_algorithm, reduce_staged_parts_algorithm, reduce_binomial_algorithm,
    reduce_parts_algorithm, reduce_composed_algorithm;
extern const struct algorithm all_gather_alone_algorithm, all_gather_inline_algorithm,
    all_gather_mapped_algorithm, all_gather_bruck_algorithm, all_gather_direct_algorithm,
    all_gather_ring_algorithm, all_gather_composed_algorithm;
extern const struct algorithm gather_alone_algorithm, gather_inline_algorithm,
    gather_mapped_algorithm, gather_binomial_algorithm, gather_direct_algorithm,
    gather_composed_algorithm;
extern const struct algorithm scatter_alone_algorithm, scatter_inline_algorithm,
    scatter_mapped_algorithm, scatter_binomial_algorithm, scatter_direct_algorithm,
    scatter_composed_algorithm;
extern const struct algorithm reduce_scatter_alone_algorithm, reduce_scatter_inline_algorithm,
    reduce_scatter_staged_algorithm, reduce_scatter_direct_algorithm,
    reduce_scatter_composed_algorithm;
extern const struct algorithm all_to_all_alone_algorithm, all_to_all_inline_algorithm,
    all_to_all_mapped_algorithm, all_to_all_bruck_algorithm, all_to_all_direct_algorithm,
    all_to_all_composed_algorithm;

extern const struct algorithm all_reduce_native_algorithm, broadcast_native_algorithm,
    barrier_native_algorithm, reduce_native_algorithm, all_gather_native_algorithm,
    gather_native_algorithm, scatter_native_algorithm, reduce_scatter_native_algorithm,
    all_to_all_native_algorithm;

#endif
