/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct algorithms: every member exchanges with every other, beginning with its neighbours, so
 * that no member is the first target of all. What arrived from the others lies in scratch in the
 * order of their ranks and is reduced in that order.
 */
#ifndef TUTTI_ALGORITHM_DIRECT_H
#define TUTTI_ALGORITHM_DIRECT_H

#include "work/schedule.h"

enum { DIRECT_SEGMENT_BYTES = 256 * 1024 }; /* of each operand at a time: bounds the scratch */

/* The members to send to and to receive from in step 1 .. n-1. */
static inline int direct_to(const struct schedule *sched, int step)
{
    return (sched->rank + step) % sched->size;
}

static inline int direct_from(const struct schedule *sched, int step)
{
    return (sched->rank - step + sched->size) % sched->size;
}

/* Where the operand of another member lies in `scratch`, each taking `each` bytes. */
static inline struct place direct_slot(const struct schedule *sched, struct place scratch,
                                       uint64_t each, int rank)
{
    return place_after(scratch, (uint64_t)(rank < sched->rank ? rank : rank - 1) * each);
}

/* to = the operands of all members in rank order, mine at `own`. The slots are used up; `to` may be
 * `own`, which is read before it is written. */
static inline void direct_reduce(struct schedule *sched, struct place to, struct place own,
                                 struct place scratch, uint64_t each, uint64_t bytes)
{
    const struct place sum = direct_slot(sched, scratch, each, sched->rank ? 0 : 1);
    struct place now = sched->rank ? sum : own;

    for (int rank = 1; rank < sched->size; rank++) {
        const struct place operand =
            rank == sched->rank ? own : direct_slot(sched, scratch, each, rank);
        const struct place result = rank + 1 < sched->size ? sum : to;

        schedule_reduce(sched, result, now, operand, bytes);
        now = result;
    }
}

#endif
