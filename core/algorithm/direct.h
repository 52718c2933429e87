/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct algorithms: every member exchanges with every other, beginning with its neighbours, so
 * that no member is the first target of all. What arrived from the others lies in scratch in the
 * order of their ranks and is reduced in that order, all at once (schedule_reduce_all()).
 */
#pragma once

#include "schedule/schedule.h"

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

/* The place in `scratch` of another member's operand, each taking `each` bytes. */
static inline struct place direct_slot(const struct schedule *sched, struct place scratch,
                                       uint64_t each, int rank)
{
    return place_after(scratch, (uint64_t)(rank < sched->rank ? rank : rank - 1) * each);
}
