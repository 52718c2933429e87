/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between engine.c (progress lock, sources, waiting), engine_sleep.c (how a thread rests while it
 * waits) and engine_thread.c (the thread that moves what nobody waits for).
 */
#pragma once

#include <semaphore.h>
#include <time.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/work.h"

/* The aim of a waiting thread: one operation, or any of some works. */
struct wanted {
    const struct operation_state *op;
    struct tutti_work *const *works;
    uint32_t count;
};

/* A wait that has come to rest; on its thread's stack, and in the engine's list until it is over. */
struct waiter {
    struct waiter *next;
    const struct wanted *wanted;
};

/* A thread that sleeps; on its stack, and in the engine's list until it has the progress lock again. */
struct sleeper {
    struct sleeper *next;
    struct wanted wanted;
    sem_t woken; /* unless it is the watcher */
};

static inline bool is_done(const struct operation_state *op)
{
    return atomic_load_explicit(&op->status, memory_order_acquire) != TUTTI_ERR_NOT_READY;
}

static inline bool is_any_done(const struct wanted *wanted)
{
    if (wanted->op)
        return is_done(wanted->op);
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->works[i] && is_done(wanted->works[i]->state))
            return true;
    return false;
}

static inline struct timespec timespec_of(int64_t at_ns)
{
    return (struct timespec){.tv_sec = at_ns / CLOCK_NS_PER_S, .tv_nsec = at_ns % CLOCK_NS_PER_S};
}

/* ---- engine.c ---- */

/* Moves all sources once, under the progress lock; how many things moved. */
unsigned engine_move(struct progress_engine *engine);
/* The same, if nobody holds the progress lock. */
unsigned engine_try_move(struct progress_engine *engine);
/* Control connections, verdicts and deadlines, if nobody holds the progress lock. */
void engine_look(struct progress_engine *engine);

/* ---- engine_sleep.c ---- */

/* One sleep, which ends when somebody wakes this thread, at `until_ns`, or after `sleep_ms`; a doze is
 * short and costs local peers less. Whether it lasted: a bell may ring for others. */
bool engine_sleep(struct progress_engine *engine, struct wanted wanted, int64_t until_ns,
                  bool doze);
/* Under the progress lock, which the sleeper needs to leave: it is there until this is over. */
void engine_wake(struct progress_engine *engine, struct sleeper *sleeper);
/* A thread that leaves may have been the watcher, or may have taken a wake meant for the next one:
 * if no thread watches, one sleeper wakes up and looks itself. */
void engine_hand_over(struct progress_engine *engine);

/* ---- engine_thread.c ---- */

/* Whether this is a thread of an engine. */
bool engine_is_own_thread(void);

/* Whether this thread may not touch the sources. Under the progress lock, so that the answer holds. */
static inline bool engine_is_barred(const struct progress_engine *engine)
{
    return atomic_load_explicit(&engine->callers_only, memory_order_relaxed) &&
           engine_is_own_thread();
}
