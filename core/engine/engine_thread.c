/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine thread, and the callbacks of works. It exists once something was started that nobody
 * waits for, moves sources only while no caller does, and rests while a plugin wants the program's
 * own threads alone; callbacks then run where a caller waits or tests. No lock is held in a callback.
 */
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "engine/engine_inside.h"

static _Thread_local bool is_engine_thread;

bool engine_is_own_thread(void)
{
    return is_engine_thread;
}

static void attend(struct progress_engine *engine)
{
    bool slept = false;

    while (atomic_load(&engine->unattended) && !atomic_load(&engine->stop) &&
           !atomic_load(&engine->callers_only)) {
        if (atomic_load(&engine->waiters)) {
            struct timespec until = timespec_of(clock_deadline_ms(WAITING_SLEEP_MS));

            engine_hand_over(engine);
            pthread_mutex_lock(&engine->lock);
            if (!engine->stop && !engine->due)
                pthread_cond_timedwait(&engine->wake, &engine->lock, &until);
            pthread_mutex_unlock(&engine->lock);
            engine_run_callbacks(engine);
            continue;
        }
        const unsigned moved = engine_try_move(engine);
        engine_run_callbacks(engine);
        if (!moved) {
            engine_look(engine);
            slept |= engine_sleep(engine, (struct wanted){.count = 0}, INT64_MAX, !slept);
        } else {
            slept = false;
        }
    }
}

static void *thread_main(void *argument)
{
    struct progress_engine *engine = argument;

    is_engine_thread = true;
    pthread_mutex_lock(&engine->lock);
    while (!engine->stop) {
        if (atomic_load(&engine->callers_only) ||
            (!atomic_load(&engine->unattended) && !engine->due)) {
            pthread_cond_wait(&engine->wake, &engine->lock);
            continue;
        }
        pthread_mutex_unlock(&engine->lock);
        engine_run_callbacks(engine);
        attend(engine);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

void engine_attend(struct progress_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    if (!engine->thread_runs && !engine->stop && !atomic_load(&engine->callers_only))
        engine->thread_runs = !thread_start(&engine->thread, "tutti-engine", thread_main, engine);
    pthread_cond_broadcast(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (atomic_load(&engine->asleep))
        engine_ring(engine);
}

void engine_due(struct progress_engine *engine, struct tutti_work *work)
{
    pthread_mutex_lock(&engine->lock);
    work->next_due = NULL;
    *engine->due_tail = work;
    engine->due_tail = &work->next_due;
    pthread_mutex_unlock(&engine->lock);
    engine_attend(engine);
}

void engine_allow_thread(struct progress_engine *engine)
{
    atomic_fetch_sub(&engine->callers_only, 1);
    pthread_mutex_lock(&engine->lock);
    bool due = engine->due != NULL;
    pthread_mutex_unlock(&engine->lock);
    if (due || atomic_load(&engine->unattended))
        engine_attend(engine);
}

void engine_callers_callbacks(struct progress_engine *engine)
{
    if (atomic_load(&engine->callers_only))
        engine_run_callbacks(engine);
}

void engine_run_callbacks(struct progress_engine *engine)
{
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        struct tutti_work *work = engine_is_barred(engine) ? NULL : engine->due;
        if (work) {
            engine->due = work->next_due;
            if (!engine->due)
                engine->due_tail = &engine->due;
        }
        pthread_mutex_unlock(&engine->lock);
        if (!work)
            return;
        work_run_callback(work);
    }
}

/* A join with a deadline; the system's own with CLOCK_MONOTONIC is unknown to ThreadSanitizer. */
static bool join_thread(struct progress_engine *engine, int64_t until_ns)
{
    const struct timespec pause = {.tv_nsec = CLOCK_NS_PER_MS};

    if (until_ns == INT64_MAX)
        return !pthread_join(engine->thread, NULL);
    while (pthread_tryjoin_np(engine->thread, NULL)) {
        if (clock_now_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool engine_stop(struct progress_engine *engine, int64_t until_ns)
{
    pthread_mutex_lock(&engine->lock);
    bool runs = engine->thread_runs;
    engine->stop = true;
    pthread_cond_broadcast(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (!runs)
        return true;
    engine_ring(engine);
    if (pthread_equal(engine->thread, pthread_self()) || !join_thread(engine, until_ns))
        return false;
    engine->thread_runs = false;
    return true;
}
