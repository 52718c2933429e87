/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: what one member does in one collective, as a list of steps.
 *
 * An algorithm emits the steps of its member in the straight-line loop of the textbook and never
 * waits; the runner (runner.h) advances them. A schedule is a function of the call and the group
 * alone: addresses, tickets' memory and the counters' base come in when it is run, so that one
 * schedule may be kept and run again. Steps lie in arrays that grow and are reused: emitting a
 * schedule no longer than an earlier one allocates nothing. Failures to grow are sticky;
 * schedule_status() tells at the end.
 *
 * Messages: send and recv start, a fence waits, for all messages so far or for one ticket. Messages
 * from one member to another match in the order emitted on both sides.
 * Mapped memory: chunk numbers and the counters' values are relative to the operation: chunk 0 is
 * its first, and value k means «k chunks of this operation».
 */
#ifndef TUTTI_WORK_SCHEDULE_H
#define TUTTI_WORK_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "work/mapped.h"

enum step_kind {
    STEP_SEND,         /* a -> peer, ticket */
    STEP_RECV,         /* peer -> to, ticket */
    STEP_COPY,         /* to = a */
    STEP_REDUCE,       /* to[i] = a[i] op b[i], bytes counts elements */
    STEP_REDUCE_MATES, /* to[i] = the mates' in-slots in their order, mine being a; elements */
    STEP_REDUCE_ALL,   /* to[i] = all members' in rank order: mine a, the others' in scratch */
    STEP_FINISH,       /* to[i] = finish(to[i]), elements */
    STEP_POST,         /* my word reaches value */
    STEP_AWAIT,        /* until peer's (a mate's index) word has reached value */
    STEP_AWAIT_ALL,    /* until every mate's word has reached value, mine aside */
    STEP_MEET,         /* until mate `peer` has announced the same call */
    STEP_MEET_ALL,     /* until every mate has */
    STEP_FENCE,        /* until all messages so far are complete */
    STEP_FENCE_TICKET  /* until this message is complete */
};

enum place_kind { PLACE_IN, PLACE_OUT, PLACE_SCRATCH, PLACE_STAGED_IN, PLACE_STAGED_OUT };

/* Where bytes are. */
struct place {
    uint8_t kind;
    uint8_t reserved;
    uint16_t mate;  /* staging: whose; operands of REDUCE_ALL: how many, mine among them */
    uint32_t chunk; /* staging: of this operation, its slot follows from the counters' base; in and
                     * out: which block; operands of REDUCE_ALL: bytes from one to the next */
    uint64_t offset;
};

/* One cache line. */
struct step {
    uint8_t kind;
    uint8_t word;
    uint16_t reserved;
    int32_t peer;   /* rank in the group; index of a mate; REDUCE_MATES: offset of those before me;
                   * REDUCE_ALL: my place among the operands */
    uint64_t bytes; /* elements for the reducing kinds; the value (signed) for post and await */
    struct place to, a;
    union {
        struct place b;
        uint32_t ticket;
    };
};

struct schedule {
    /* The view in which the algorithm runs: see schedule_view(). */
    int rank, size;
    const int *members; /* ranks in the group; NULL: they are the view's own */

    int mates, self; /* of this member's host; 1 and 0 without mapped memory */
    uint32_t element_bytes;

    struct step *steps;
    uint32_t count, capacity;
    uint32_t *free_tickets; /* those below tickets_used whose fence was emitted */
    uint32_t free_count, free_capacity, tickets_used;
    int *table; /* storage of schedule_table() */
    uint32_t table_capacity;
    uint64_t scratch_used;

    /* What a run needs, and what it does. */
    uint32_t tickets;
    uint32_t chunks; /* staged; the same number on every mate */
    uint64_t scratch_bytes;
    uint32_t vectors;                   /* operands of the longest REDUCE_ALL */
    uint64_t sent_bytes, sent_messages; /* by this member */
    tutti_status status;
};

/* A zeroed struct schedule is a valid empty one. */
void schedule_free(struct schedule *sched);

/* Begins a new schedule for member `rank` of `size`, with `mates` on its host of which it is
 * `self`. */
void schedule_begin(struct schedule *sched, int rank, int size, int mates, int self,
                    uint32_t element_bytes);

/*
 * Narrows the schedule to the subset members[0..size), in which this member is `rank`: what is
 * emitted from here names peers by position in the subset. The table must live as long as the view
 * is used. NULL, with the group's own rank and size, ends the view.
 */
void schedule_view(struct schedule *sched, int rank, int size, const int *members);

/* `count` ints that live until the next call, for a view's members; NULL: no memory. */
int *schedule_table(struct schedule *sched, uint32_t count);

/* Reserves `bytes` of scratch, aligned to 64. */
struct place schedule_scratch(struct schedule *sched, uint64_t bytes);
/* What was reserved since scratch_used was `mark` may be reserved again. */
void schedule_scratch_release(struct schedule *sched, uint64_t mark);

/* Reserves `count` staged chunks; returns the number of the first. The runner brings every counter
 * to the end of all chunks when the schedule is done. */
uint32_t schedule_chunks(struct schedule *sched, uint32_t count);

/* TUTTI_OK, or TUTTI_ERR_NO_MEMORY when an array could not grow: nothing may be run then. */
tutti_status schedule_status(const struct schedule *sched);

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
/* Reduces what the mates have in their in-slots of `chunk`, in their order: at offset `before`
 * those whose index is below mine, at `after` those above; mine is `own`. */
void schedule_reduce_mates(struct schedule *sched, struct place to, struct place own,
                           uint32_t chunk, uint32_t before, uint32_t after, uint64_t bytes);
/* Reduces all members' operands of the view in rank order: mine at `own`, those of the others in
 * `scratch`, `each` bytes from one to the next. `to` may be `own`. */
void schedule_reduce_all(struct schedule *sched, struct place to, struct place own,
                         struct place scratch, uint32_t each, uint64_t bytes);
void schedule_finish(struct schedule *sched, struct place at, uint64_t bytes);

/* Mapped memory. `value` may be negative where an earlier operation's chunk is meant. */
void schedule_post(struct schedule *sched, enum mapped_word word, int64_t value);
void schedule_await(struct schedule *sched, int mate, enum mapped_word word, int64_t value);
void schedule_await_all(struct schedule *sched, enum mapped_word word, int64_t value);
void schedule_meet(struct schedule *sched, int mate);
void schedule_meet_all(struct schedule *sched);

static inline struct place place_in(uint64_t offset)
{
    return (struct place){.kind = PLACE_IN, .offset = offset};
}

/* In the block of member `block`, where in or out has one for each. */
static inline struct place place_in_block(int block, uint64_t offset)
{
    return (struct place){.kind = PLACE_IN, .chunk = (uint32_t)block, .offset = offset};
}

static inline struct place place_out_block(int block, uint64_t offset)
{
    return (struct place){.kind = PLACE_OUT, .chunk = (uint32_t)block, .offset = offset};
}

static inline struct place place_out(uint64_t offset)
{
    return (struct place){.kind = PLACE_OUT, .offset = offset};
}

static inline struct place place_staged_in(int mate, uint32_t chunk, uint64_t offset)
{
    return (struct place){PLACE_STAGED_IN, 0, (uint16_t)mate, chunk, offset};
}

static inline struct place place_staged_out(int mate, uint32_t chunk, uint64_t offset)
{
    return (struct place){PLACE_STAGED_OUT, 0, (uint16_t)mate, chunk, offset};
}

static inline struct place place_after(struct place place, uint64_t bytes)
{
    place.offset += bytes;
    return place;
}

#endif
