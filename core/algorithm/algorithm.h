/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the core. Each file holds one: its descriptor, its cost and what it emits. To
 * add one, write the file and its row in algorithms.h.
 *
 * An algorithm knows members, bytes and places; never a dtype, a socket or a work. emit() writes
 * the schedule of one member and may be called on a view (schedule_view()), which is how composed
 * algorithms reuse the plain ones. Every algorithm of all_reduce leaves the same bits on
 * every member.
 *
 * The inline algorithms (at most 4 KiB on one host's mapped memory) have no schedule: they are a
 * pair of functions, post and poll, that never wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "algorithm/algorithms.h"
#include "algorithm/layout.h"
#include "algorithm/thresholds.h"
#include "base/call.h"
#include "schedule/mapped.h"
#include "schedule/runner.h"
#include "schedule/schedule.h"

/* A call as algorithms see it. */
struct request {
    struct place in, out; /* of the vector; a broadcast has it at `out` on every member */
    uint64_t bytes;       /* of the vector, or of each block where there is one for every member; a
                           * multiple of the schedule's element_bytes */
    const uint64_t *in_bytes, *out_bytes; /* of each block, where they are uneven; else NULL */
    int root;    /* rank in the view; mapped algorithms: index of the local peer */
    bool finish; /* the op has a last step on the reduced values (reduce_finish) */
    const int *
        local_blocks; /* mapped gather, scatter and all_to_all: which block is each local peer's; NULL: the
                                  * local peer's own number */
    const struct layout *layout; /* composed algorithms: the group's */
};

/* The blocks of the operations that have one for every member. */
static inline uint64_t in_block_bytes(const struct request *req, int block)
{
    return req->in_bytes ? req->in_bytes[block] : req->bytes;
}

static inline uint64_t longest_in_block(const struct request *req, int members)
{
    uint64_t longest = req->in_bytes ? 0 : req->bytes;

    for (int block = 0; req->in_bytes && block < members; block++)
        longest = req->in_bytes[block] > longest ? req->in_bytes[block] : longest;
    return longest;
}

static inline uint64_t out_block_bytes(const struct request *req, int block)
{
    return req->out_bytes ? req->out_bytes[block] : req->bytes;
}

/* The block of a local peer, of the input or the output at `base`: in the caller's memory, or one
 * after another in scratch. */
static inline struct place local_block(const struct request *req, struct place base, int local_peer)
{
    const int block = req->local_blocks ? req->local_blocks[local_peer] : local_peer;

    if (base.kind == PLACE_SCRATCH)
        return place_after(base, (uint64_t)block * req->bytes);
    return (struct place){.kind = base.kind, .block = (uint32_t)block};
}

/*
 * Bounds that several algorithms share, besides those that a tuning file may set (thresholds.h).
 *
 * For blocks that travel together they come from the model. Trees win from 16 members on, but begin
 * late, since at half the price of a message at once 16 becomes 32. Bruck's all_gather wins from 6
 * members, below 10 KiB at 8 and 19 KiB at 16. Where members outnumber their CPUs, few messages win
 * earlier (thresholds.h): over tcp on 2 CPUs Bruck's algorithms, the tree of a scatter and halving from
 * 4 members. With 4 the model has Bruck's equal to direct ones, so Bruck's begin there everywhere.
 */
enum {
    BRUCK_MEMBERS_MIN = 4,
    CROWDED_MEMBERS_MIN = 4,           /* scatter along a tree, halving */
    RING_CROWDED_MIN = 5,              /* all_gather; fewer take the direct way instead */
    TREE_MEMBERS_MIN = 24,             /* gather and scatter */
    HALVING_MEMBERS_MIN = 6,           /* reduce_scatter */
    BLOCKS_TOGETHER_MAX = 4 * 1024 - 1 /* bytes of each; several of a host in one message */
};

/* Whether blocks are so short that those of a host travel in one message. */
static inline bool blocks_together(uint64_t bytes)
{
    return bytes <= BLOCKS_TOGETHER_MAX;
}

/* The cost of a call on the longest way through it, in the terms of the model. Members choose by
 * it, so it has whole numbers: rounding that differs between CPUs would make members choose
 * differently. */
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
    /* Tensors in registered memory of one host. It takes the place of a call's own algorithm, if the members'
     * lines decide so. */
    ALGORITHM_REGISTERED,
    /* A reduction by kernels of the tensors' devices, between operations of an engine; no schedule. */
    ALGORITHM_KERNELS,
    ALGORITHM_NATIVE /* the whole operation by an engine; no schedule */
};

/* Whether an engine's team carries the call. */
static inline bool algorithm_by_engine(enum algorithm_kind kind)
{
    return kind == ALGORITHM_NATIVE || kind == ALGORITHM_KERNELS;
}

/* One inline call. */
struct inline_call {
    const struct announce *announce;
    struct blocks in, out; /* as those of a run */
    uint64_t bytes;        /* of the vector or of each block; all of the payload is at most
                            * MAPPED_PAYLOAD_MAX */
    uint64_t count;        /* elements in `bytes` */
    int root;              /* index of the local peer */
    const struct kernels *kernels;
};

/*
 * post: TUTTI_OK when my line is out (waking local peers is the caller's); TUTTI_ERR_NOT_READY: no
 * room yet, nothing happened. poll, after post: TUTTI_OK when the call is complete. Both:
 * TUTTI_ERR_NOT_READY leaves the local peer that is missing in mapped->culprit, except for a poll
 * in a round, where mapped_round_awaits() tells it; TUTTI_ERR_MISMATCH and TUTTI_ERR_INTERNAL as
 * mapped_meet().
 */
typedef tutti_status (*inline_fn)(struct mapped *mapped, const struct inline_call *call);

enum algorithm_flag {
    ALGORITHM_ROUNDS_ON_THE_WAY = 1 << 0, /* it reduces partial results of some members */
    /* Blocks of several members travel in one message, so that each must know their sizes. */
    ALGORITHM_NEEDS_EQUAL_BLOCKS = 1 << 1,
    ALGORITHM_SHARES_CPUS = 1 << 2 /* in rounds: only where the members outnumber the CPUs */
};

/* 0: no bound. */
struct bounds {
    uint64_t least, most;
};

struct algorithm {
    const char *name;
    enum operation operation;
    enum algorithm_kind kind;
    uint32_t flags;
    /* The range in which it is preferred to the rows behind it: bytes as in struct request. */
    struct bounds members;
    uint64_t least_crowded;     /* members, where they outnumber their CPUs; 0: as elsewhere */
    enum threshold least, most; /* bytes; THRESHOLD_NONE: no bound */
    /* Which bytes are in the range, if the two thresholds alone do not say it. */
    bool (*fits)(const struct thresholds *thresholds, int members, uint64_t bytes);
    /* NULL: inline, or by an engine. */
    void (*emit)(struct schedule *sched, const struct request *req);
    /* The same on all members: it must not depend on the own rank. */
    struct cost (*cost)(const struct layout *layout, uint64_t bytes);
    inline_fn post, poll; /* inline */
};

/* Defines cost() of a number of members `n` and of `bytes`: designated initializers. */
#define COST(...)                                                                                  \
    static struct cost cost(const struct layout *layout, uint64_t bytes)                           \
    {                                                                                              \
        const uint64_t n = (uint64_t)layout->size;                                                 \
                                                                                                   \
        (void)n;                                                                                   \
        (void)bytes;                                                                               \
        return (struct cost){__VA_ARGS__};                                                         \
    }

/* Defines SYMBOL_algorithm. What follows the kind are designated initializers. */
#define ALGORITHM(symbol, NAME, KIND, ...)                                                         \
    const struct algorithm symbol##_algorithm = {                                                  \
        .name = #symbol, .operation = OPERATION_##NAME, .kind = ALGORITHM_##KIND, __VA_ARGS__}

#define ALGORITHM_EXTERN(name, ...) extern const struct algorithm name##_algorithm;
ALGORITHM_LIST(ALGORITHM_EXTERN)
#undef ALGORITHM_EXTERN

#define ALGORITHM_ONE(name, ...) +1
enum { ALGORITHMS = 0 ALGORITHM_LIST(ALGORITHM_ONE) };
#undef ALGORITHM_ONE

extern const struct algorithm *const algorithm_table[ALGORITHMS];

/* The row of the operation and kind that the tuning file names; else the first that fits; where none
 * fits, the first. Rows with one of the flags `without` do not count. NULL: the operation has none. */
const struct algorithm *algorithm_find(const struct thresholds *thresholds,
                                       enum operation operation, enum algorithm_kind kind,
                                       int members, uint64_t bytes, uint32_t without);

/* Emits it, and gives back the scratch that it took. */
static inline void algorithm_emit(const struct algorithm *algorithm, struct schedule *sched,
                                  const struct request *req)
{
    const uint64_t mark = sched->scratch_used;

    algorithm->emit(sched, req);
    sched->scratch_used = mark;
}

/* How composed algorithms go between hosts. */
static inline const struct algorithm *algorithm_by_messages(const struct thresholds *thresholds,
                                                            enum operation operation, int members,
                                                            uint64_t bytes)
{
    return algorithm_find(thresholds, operation, ALGORITHM_MESSAGES, members, bytes, 0);
}
