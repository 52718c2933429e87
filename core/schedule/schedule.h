/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: what one member does in one collective, as a list of steps.
 *
 * An algorithm emits the steps of its member in the straight-line loop of the textbook and never
 * waits; the runner (runner.h) advances them. A schedule is a function of the call and the group
 * alone: addresses, tickets' memory and the counters' base come in when it is run, so that one
 * schedule may be kept and run again. Steps lie in arrays that grow and are reused: emitting a
 * schedule no longer than an earlier one allocates nothing. Failures to grow are sticky:
 * the status tells at the end.
 *
 * Messages: send and recv start, a fence waits, for all messages so far or for one ticket. Messages
 * from one member to another match in the order emitted on both sides.
 * Mapped memory: pages of the windows and the counters' values are relative to the operation: page 0
 * is its first, and value k means «k pages of this operation».
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "schedule/mapped.h"

enum step_kind {
    STEP_SEND,         /* a -> peer, ticket */
    STEP_RECV,         /* peer -> to, ticket */
    STEP_COPY,         /* to = a */
    STEP_REDUCE,       /* to[i] = a[i] op b[i], bytes counts elements */
    STEP_REDUCE_LOCAL, /* to[i] = the local peers' chunks in their order, mine being a; elements */
    STEP_REDUCE_ALL,   /* to[i] = all members' in rank order: mine a, the others' in scratch */
    STEP_REDUCE_PEERS, /* to[i] = all local peers' inputs in their order, at a's offset; elements */
    STEP_FINISH,       /* to[i] = finish(to[i]), elements */
    STEP_POST,         /* my word reaches value */
    STEP_AWAIT,        /* until the local peer's word has reached value */
    STEP_AWAIT_ALL,    /* until every local peer's word has reached value, mine aside */
    STEP_ROUND,        /* until result = all parts in their order; bytes counts elements */
    STEP_MEET,         /* until the local peer has announced the same call */
    STEP_MEET_ALL,     /* until every local peer has */
    STEP_FENCE,        /* until all messages so far are complete */
    STEP_FENCE_TICKET  /* until this message is complete */
};

enum place_kind {
    PLACE_IN,
    PLACE_OUT,
    PLACE_SCRATCH,
    PLACE_STAGED_IN,
    PLACE_STAGED_OUT,
    PLACE_PART,    /* my part of a round */
    PLACE_RESULT,  /* of the last round */
    PLACE_PEER_IN, /* a local peer's own input and output, in registered memory */
    PLACE_PEER_OUT
};

/* A place of bytes. */
struct place {
    uint8_t kind;
    uint8_t reserved;
    uint16_t local_peer; /* staging, registered memory: whose */
    union {
        uint32_t page;  /* staging: the chunk's first, of this operation */
        uint32_t block; /* in and out */
    };
    uint64_t offset;
};

/* One cache line. */
struct step {
    uint8_t kind;
    uint8_t word;
    uint16_t reserved;
    union {
        int32_t peer;       /* send and recv: rank in the group */
        int32_t local_peer; /* await and meet: its index */
    };
    uint64_t bytes; /* elements for the reducing kinds; the value (signed) for post and await */
    struct place to, a;
    union {
        struct place b;  /* REDUCE */
        uint32_t ticket; /* messages */
        struct {
            uint32_t page, before, after; /* offsets in the chunks of those below and above me */
        } local;                          /* REDUCE_LOCAL */
        struct {
            uint64_t offset; /* in scratch */
            uint32_t each;   /* bytes from one operand to the next */
            uint16_t members, self;
        } all; /* REDUCE_ALL */
    };
};

_Static_assert(sizeof(struct step) == 64, "a step is one cache line");

struct thresholds;

struct schedule {
    /* For algorithms that emit: the group's (algorithm/thresholds.h). */
    const struct thresholds *thresholds;

    /* The view in which the algorithm runs: see schedule_view(). */
    int rank, size;
    const int *members; /* ranks in the group; NULL: they are the view's own */

    int local_size, self; /* of this member's host; 1 and 0 without mapped memory */
    uint32_t element_bytes;

    struct step *steps;
    uint32_t count, capacity;
    uint32_t *free_tickets; /* those below tickets_used whose fence was emitted */
    uint32_t free_count, free_capacity, tickets_used;
    int *table; /* storage of schedule_table() */
    uint32_t table_capacity;
    uint64_t scratch_used;

    /* The resources of a run, and its counters. */
    uint32_t tickets;
    uint32_t pages; /* of the windows; the same number on every local peer */
    /* It may fill two laps of them; the same on every local peer. See staging_goes_one_way(). */
    bool one_way;
    /* After so many pages windows change hands (windows.h); 0: never. The same on both local peers. */
    uint32_t swap_pages;
    int decider; /* of the trial of stores (trial.h): a local peer; the same on every one */
    uint64_t scratch_bytes;
    uint32_t vectors;                   /* operands of the longest REDUCE_ALL */
    uint64_t sent_bytes, sent_messages; /* by this member */
    uint64_t user_bytes; /* of the caller's memory that copies of this member read and write */
    struct mapped_reach *reach; /* [local_size] of local peers' registered memory; NULL: of none */
    uint32_t reach_capacity;
    /* NO_MEMORY when an array could not grow: nothing may be run then. */
    tutti_status status;
};

/* A zeroed struct schedule is a valid empty one. */
void schedule_free(struct schedule *sched);

/* Begins a new schedule for member `rank` of `size`, with `local_size` on its host of which it is
 * `self`. */
void schedule_begin(struct schedule *sched, const struct thresholds *thresholds, int rank, int size,
                    int local_size, int self, uint32_t element_bytes);

/*
 * Narrows the schedule to the subset members[0..size), in which this member is `rank`: what is
 * emitted from here names peers by position in the subset. The table must live as long as the view
 * is used. NULL, with the group's own rank and size, ends the view.
 */
void schedule_view(struct schedule *sched, int rank, int size, const int *members);

/* `count` ints that live until the next call, for a view's members; NULL: no memory. */
int *schedule_table(struct schedule *sched, uint32_t count);

/* Reserves `bytes` of scratch, aligned to 64. Setting scratch_used back to what it was gives back what was
 * reserved since. */
struct place schedule_scratch(struct schedule *sched, uint64_t bytes);

/* The pages of a staged chunk, in each member's windows: of this operation. */
struct chunk {
    uint32_t page, pages;
};

/* Reserves `count` chunks of `bytes` each; returns the first. The runner brings every counter to the
 * end of all chunks when the schedule is done. */
struct chunk schedule_chunks(struct schedule *sched, uint32_t count, uint64_t bytes);

/* The `index`-th chunk of those that begin with `first`. */
static inline struct chunk chunk_after(struct chunk first, uint32_t index)
{
    return (struct chunk){first.page + index * first.pages, first.pages};
}

/* Messages of 0 bytes are sent too. The ticket is for schedule_fence_ticket(). */
uint32_t schedule_send(struct schedule *sched, int peer, struct place from, uint64_t bytes);
uint32_t schedule_recv(struct schedule *sched, int peer, struct place to, uint64_t bytes);
void schedule_fence(struct schedule *sched);
void schedule_fence_ticket(struct schedule *sched, uint32_t ticket);

/* Local work; nothing is emitted for 0 bytes. Long pieces become several steps, so that a run
 * looks up from its work now and then. */
void schedule_copy(struct schedule *sched, struct place to, struct place from, uint64_t bytes);
/* `a` is the operand of the lower rank, so that every member computes the same bits. */
void schedule_reduce(struct schedule *sched, struct place to, struct place a, struct place b,
                     uint64_t bytes);
/* Reduces what the local peers have in `chunk` of their in-windows, in their order: at offset `before`
 * those whose index is below mine, at `after` those above; mine is `own`. */
void schedule_reduce_local(struct schedule *sched, struct place to, struct place own,
                           struct chunk chunk, uint32_t before, uint32_t after, uint64_t bytes);
/* Reduces all members' operands of the view in rank order: mine at `own`, those of the others in
 * `scratch`, `each` bytes from one to the next. `to` may be `own`. */
void schedule_reduce_all(struct schedule *sched, struct place to, struct place own,
                         struct place scratch, uint32_t each, uint64_t bytes);
/* Reduces `bytes` at `offset` of all local peers' inputs, in their order; all are in registered memory. */
void schedule_reduce_peers(struct schedule *sched, struct place to, uint64_t offset,
                           uint64_t bytes);
void schedule_finish(struct schedule *sched, struct place at, uint64_t bytes);

/* Mapped memory. `value` may be negative where an earlier operation's page is meant. */
void schedule_post(struct schedule *sched, enum mapped_word word, int64_t value);
void schedule_await(struct schedule *sched, int local_peer, enum mapped_word word, int64_t value);
void schedule_await_all(struct schedule *sched, enum mapped_word word, int64_t value);
/* Until the parts of all local peers, `bytes` each (ROUND_CHUNK_MAX at most), are reduced and
 * finished in the result: rounds.h. */
void schedule_round(struct schedule *sched, uint64_t bytes);
void schedule_meet(struct schedule *sched, int local_peer);
void schedule_meet_all(struct schedule *sched);

/* In the block of member `block`, where in or out has one for each; a vector is block 0. */
static inline struct place place_in_block(int block, uint64_t offset)
{
    return (struct place){.kind = PLACE_IN, .block = (uint32_t)block, .offset = offset};
}

static inline struct place place_out_block(int block, uint64_t offset)
{
    return (struct place){.kind = PLACE_OUT, .block = (uint32_t)block, .offset = offset};
}

static inline struct place place_staged_in(int local_peer, struct chunk chunk, uint64_t offset)
{
    return (struct place){.kind = PLACE_STAGED_IN,
                          .local_peer = (uint16_t)local_peer,
                          .page = chunk.page,
                          .offset = offset};
}

static inline struct place place_staged_out(int local_peer, struct chunk chunk, uint64_t offset)
{
    return (struct place){.kind = PLACE_STAGED_OUT,
                          .local_peer = (uint16_t)local_peer,
                          .page = chunk.page,
                          .offset = offset};
}

/* `bytes` at `offset` of a local peer's input or output, which is in registered memory. */
struct place schedule_peer_in(struct schedule *sched, int local_peer, uint64_t offset,
                              uint64_t bytes);
struct place schedule_peer_out(struct schedule *sched, int local_peer, uint64_t offset,
                               uint64_t bytes);

static inline struct place place_after(struct place place, uint64_t bytes)
{
    place.offset += bytes;
    return place;
}
