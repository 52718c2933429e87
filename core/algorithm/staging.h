/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of the staging slots. Chunk c of an operation lies in slot (base + c) % MAPPED_SLOTS of its
 * owner; who fills it first waits until everybody is through with the chunk that lay there before,
 * be it of this operation or of an earlier one.
 */
#ifndef TUTTI_ALGORITHM_STAGING_H
#define TUTTI_ALGORITHM_STAGING_H

#include "work/schedule.h"

/* Until my in-slot (or out-slot) of `chunk` may be filled. */
static inline void staging_claim(struct schedule *sched, enum mapped_word used, uint32_t chunk)
{
    schedule_await_all(sched, used, (int64_t)chunk + 1 - MAPPED_SLOTS);
}

/* My counter has passed `chunk`. */
static inline void staging_post(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_post(sched, word, (int64_t)chunk + 1);
}

static inline void staging_await(struct schedule *sched, int mate, enum mapped_word word,
                                 uint32_t chunk)
{
    schedule_await(sched, mate, word, (int64_t)chunk + 1);
}

static inline void staging_await_all(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_await_all(sched, word, (int64_t)chunk + 1);
}

#endif
