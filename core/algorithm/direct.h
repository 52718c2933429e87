/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct algorithms: every member exchanges with every other, beginning with its neighbours, so
 * that no member is the first target of all. What arrived from the others lies in scratch in the
 * order of their ranks and is reduced in that order, all at once (schedule_reduce_all()).
 */
#pragma once

#include "algorithm/thresholds.h"
#include "schedule/schedule.h"

enum {
    DIRECT_SEGMENT_BYTES = 256 * 1024, /* of each operand at a time: bounds the scratch */
    DIRECT_PACED_MEMBERS = 8           /* or more: 4 lose by it */
};

/* The members to send to and to receive from in step 1 .. n-1. */
static inline int direct_to(const struct schedule *sched, int step)
{
    return (sched->rank + step) % sched->size;
}

static inline int direct_from(const struct schedule *sched, int step)
{
    return (sched->rank - step + sched->size) % sched->size;
}

/*
 * Long messages of a member two at a time, where many members share CPUs (THRESHOLD_PACED_MIN): a message is started
 * when all but the last one before it are complete. What is copied into sockets then is still in a cache when the
 * receiver copies it out, and receivers go on while others are served. A late member delays the messages behind its own.
 * Invariant: on every member, paced or not, a message waits only for messages of earlier steps, so there is no cycle.
 */
struct direct_pace {
    bool on;
    bool started;
    uint32_t last;
};

static inline struct direct_pace direct_pace(const struct schedule *sched, uint64_t longest)
{
    return (struct direct_pace){.on = sched->size >= DIRECT_PACED_MEMBERS &&
                                      longest >= sched->thresholds->bytes[THRESHOLD_PACED_MIN]};
}

/* After each message that was started. */
static inline void direct_started(struct schedule *sched, struct direct_pace *pace, uint32_t ticket)
{
    if (pace->on && pace->started)
        schedule_fence_ticket(sched, pace->last);
    pace->started = true;
    pace->last = ticket;
}

/* The place in `scratch` of another member's operand, each taking `each` bytes. */
static inline struct place direct_slot(const struct schedule *sched, struct place scratch,
                                       uint64_t each, int rank)
{
    return place_after(scratch, (uint64_t)(rank < sched->rank ? rank : rank - 1) * each);
}
