/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner: advances one schedule of one member, and never sleeps.
 *
 * run_advance() goes on until the schedule is done, a step is not ready, or it has worked for a
 * while (RUN_BUDGET_BYTES); its caller looks at verdicts and deadlines and progresses the
 * transports between two calls. Messages go through a small table, so that core/p2p and the
 * simulator serve alike; mapped words are accessed directly. A run keeps its memory (tickets,
 * scratch) from call to call and allocates nothing once it is large enough.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "reduce/tree.h"
#include "schedule/mapped_memory.h"
#include "schedule/mapped_waits.h"
#include "schedule/schedule.h"
#include "schedule/trial.h"
#include "schedule/windows.h"

enum { RUN_BUDGET_BYTES = 1 << 20 }; /* copied or reduced in one run_advance(): some 100 µs */

/*
 * Messages. `user` is the run's `wire_user`, `peer` a rank in the group, `ticket` points to
 * `ticket_bytes` of the run's memory, aligned to 64, that the wire owns from a start that answered
 * OK until test answers something else than NOT_READY, or cancel has returned.
 */
struct wire {
    size_t ticket_bytes;
    /* TUTTI_OK: started; TUTTI_ERR_NOT_READY: nothing was taken, try again; or an error. */
    tutti_status (*send)(void *user, int peer, void *ticket, const void *data, uint64_t bytes);
    tutti_status (*recv)(void *user, int peer, void *ticket, void *data, uint64_t bytes);
    /* TUTTI_OK: complete; TUTTI_ERR_NOT_READY; or an error. Need not progress anything. */
    tutti_status (*test)(void *user, void *ticket);
    /* Gives the buffer back now; the message's fate is unknown. */
    void (*cancel)(void *user, void *ticket);
};

/* The functions that reduce, from core/reduce by dtype and op (reduce_kernel, reduce_many,
 * reduce_finish). A `tree` that is not zeroed takes the place of `many`, and of `reduce` if it has
 * an op, or divides. */
struct kernels {
    void (*reduce)(void *dst, const void *a, const void *b, size_t count);
    void (*many)(void *dst, const void *const *vectors, int n, size_t count);
    void (*finish)(void *dst, size_t count, uint32_t members); /* NULL: nothing to do */
    uint32_t element_bytes;
    uint32_t members; /* of the group; handed to finish */
    struct reduce_tree tree;
};

static inline void kernels_reduce(const struct kernels *kernels, void *dst, const void *a,
                                  const void *b, uint64_t count)
{
    if (kernels->tree.op)
        reduce_tree_pair(&kernels->tree, dst, a, b, (size_t)count);
    else if (kernels->tree.divide)
        reduce_tree(&kernels->tree, dst, (const void *const[]){a, b}, 2, (size_t)count);
    else
        kernels->reduce(dst, a, b, (size_t)count);
}

static inline void kernels_many(const struct kernels *kernels, void *dst,
                                const void *const *vectors, int n, uint64_t count)
{
    if (kernels->tree.element_bytes)
        reduce_tree(&kernels->tree, dst, vectors, n, (size_t)count);
    else
        kernels->many(dst, vectors, n, (size_t)count);
}

/* A vector, or the blocks of one: block i lies at each[i], or without that at base + i * stride. */
struct blocks {
    void *base;
    uint64_t stride;
    void *const *each;
};

static inline void *block_at(const struct blocks *blocks, uint32_t index)
{
    return blocks->each ? blocks->each[index] : (char *)blocks->base + index * blocks->stride;
}

/* Whether each lies behind the one before; of `sizes`, or of `bytes` each. */
static inline bool blocks_are_in_a_row(const struct blocks *blocks, const uint64_t *sizes,
                                       uint64_t bytes, uint32_t count)
{
    const char *next = block_at(blocks, 0);

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = sizes ? sizes[i] : bytes;

        if (size && (const char *)block_at(blocks, i) != next)
            return false;
        next += size;
    }
    return true;
}

/* The address of a place in one of these. */
static inline void *place_in(const struct blocks *blocks, const struct place *place)
{
    return (unsigned char *)block_at(blocks, place->block) + place->offset;
}

/* One call of a run; what is behind the pointers lives until the run is done. */
struct run_call {
    const struct schedule *schedule;
    struct mapped *mapped;           /* NULL: this member has no local peers with mapped memory */
    const struct announce *announce; /* of the call; only where `mapped` is given */
    /* The schedule that works in registered memory, if the lines decide so: that of local peer `decider`, or
     * all (-1). NULL: this member's memory is not such, so the ordinary schedule is taken. */
    const struct schedule *registered;
    const struct mapped_references *references; /* what my line shows; NULL: none */
    int decider;
    struct trial *trial;     /* of the plan; NULL: no copy streams for it */
    const struct wire *wire; /* NULL: the schedule has no messages */
    void *wire_user;
    struct blocks in; /* never written; may be out */
    struct blocks out;
    struct kernels kernels; /* zeros: the schedule does not reduce */
    /* Called after something was published in my mapped memory; `counters`: one of mine has moved, and
     * nothing else. Contains the fence that waking needs. NULL: nobody ever sleeps. */
    void (*notify)(void *user, bool counters);
    void *notify_user;
    /* Whether a step may use so many bytes of `in` or `out` now: OK, NOT_READY, or what failed. NULL: it always may.
     * Not where `registered` is given. */
    tutti_status (*reach)(void *user, const void *first, uint64_t bytes);
    void *reach_user;
};

struct run_ticket {
    int32_t peer;
    uint8_t outstanding;
    uint8_t sending;
};

struct run {
    struct run_call call;
    uint32_t next;        /* step */
    uint32_t outstanding; /* messages */
    uint32_t cursor;      /* tickets or local peers below are done with, in the step that is next */
    struct windows windows; /* how it lies in them */
    bool announced;
    bool undecided; /* which schedule is taken */
    bool exhausted; /* the last advance ended because of its budget */
    uint64_t
        began; /* in ticks, less the time of waits for lines; 0: this member does not time the trial */
    uint64_t waits_since; /* for the lines of others; 0: it does not */
    uint8_t way;          /* of its stores, see trial.h */
    uint64_t ticket_stride;
    struct run_ticket *tickets;
    unsigned char *ticket_memory, *scratch;
    const void **vectors;
    uint64_t tickets_bytes, ticket_memory_bytes, scratch_bytes, vectors_bytes;
};

enum waiting_kind {
    WAITING_NOTHING, /* there is work to do: call run_advance() again */
    WAITING_ROOM,    /* a local peer is several calls behind */
    WAITING_CALL,    /* a local peer has not called this collective yet */
    WAITING_ANSWER,  /* a member was asked and does not say that it has; never from run_waiting() */
    WAITING_MAPPED,  /* a local peer has not come so far in this collective */
    WAITING_RECEIVE, /* a message of a member */
    WAITING_SEND     /* a message to a member */
};

struct waiting {
    enum waiting_kind kind;
    int rank;         /* in the group; -1 for WAITING_NOTHING */
    bool mapped_only; /* nothing but mapped words can end this wait: a futex will do */
};

/* The trial of a plan whose ordinary schedule this is, before its first call. `digest` tells plans apart, on all members
 * alike; `crowded`: ranks outnumber the host's CPUs. */
struct trial run_trial(const struct mapped *mapped, const struct schedule *schedule,
                       uint64_t digest, bool crowded);

/* A zeroed struct run is valid. Makes it ready for `call`, which is copied. TUTTI_ERR_NO_MEMORY. */
tutti_status run_start(struct run *run, const struct run_call *call);

/*
 * TUTTI_OK: done, and the run may be started again. TUTTI_ERR_NOT_READY: see run_waiting().
 * TUTTI_ERR_MISMATCH, TUTTI_ERR_INTERNAL: about call.mapped->culprit, which see; any other error is
 * the wire's. After an error the caller calls run_abandon().
 */
tutti_status run_advance(struct run *run);

/* All steps of a group of one, which copy from the input and finish the output: a run would take longer than these.
 * For no more than RUN_BUDGET_BYTES. */
void run_alone(const struct schedule *schedule, const struct blocks *in, const struct blocks *out,
               const struct kernels *kernels);

/* Whether it works in registered memory: the lines have decided so. */
static inline bool run_is_registered(const struct run *run)
{
    return run->call.registered && run->call.schedule == run->call.registered;
}

/* Tells of each step that writes to `out` what it writes, and the first step before which that is done. */
typedef void (*run_write_fn)(void *user, const void *first, uint64_t bytes, uint32_t until);
void run_tell_writes(const struct run *run, run_write_fn wrote, void *user);

/* The member that the run waits for; valid after run_advance() returned NOT_READY. */
struct waiting run_waiting(const struct run *run);

/* The members whose messages are awaited, `but` aside: at most `capacity`, whose number is returned. */
int run_awaited(const struct run *run, int but, int *ret_ranks, int capacity);

/* Of the runner: whether all that the step uses of the caller's memory is within reach. */
tutti_status run_reach(const struct run *run, const struct step *step);

/* Cancels what is outstanding; afterwards in, out and scratch are nobody's but the caller's. */
void run_abandon(struct run *run);

void run_free(struct run *run);
