/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine thread, and the callbacks of works. It exists once something was started that nobody
 * waits for, moves sources only while no caller does, and rests while a plugin wants the program's
 * own threads alone; callbacks then run where a caller waits or tests. No lock is held in a callback.
 *
 * Waking the thread at each start would cost more than a short message, and take a CPU from a rank. So
 * while works are started the thread comes by itself (`thread_comes`), each time after a pause. It moves
 * sources only if no caller has started, waited for or tested a work in the pause (`visits`); else
 * callers do, and the pause grows. A caller counts its visit before it reads `thread_comes`; the thread
 * clears that before it reads the visits, and only then sleeps for long: one of them sees the other.
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

static bool may_run(const struct progress_engine *engine)
{
    return !atomic_load(&engine->stop) && !atomic_load(&engine->callers_only);
}

/* Moves sources until a caller does, or nothing is left. */
static void attend(struct progress_engine *engine, uint32_t visits)
{
    bool slept = false;

    while (may_run(engine) && atomic_load(&engine->unattended) && !atomic_load(&engine->waiters) &&
           atomic_load(&engine->visits) == visits) {
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

/* Sleeps for `ns`, unless a callback is due. Before a long sleep the thread says that it does not come by
 * itself, and stays up if a caller has come since `visits`. */
static void pause_for(struct progress_engine *engine, int64_t ns, uint32_t visits)
{
    const struct timespec until = timespec_of(clock_now_ns() + ns);
    const bool comes = ns <= WAITING_ATTEND_MAX_NS;

    pthread_mutex_lock(&engine->lock);
    atomic_store(&engine->thread_comes, comes);
    if (!engine->stop && !engine->due && (comes || atomic_load(&engine->visits) == visits))
        pthread_cond_timedwait(&engine->wake, &engine->lock, &until);
    pthread_mutex_unlock(&engine->lock);
}

/* How long the next pause is after one of `ns` in which callers came, or one waits. */
static int64_t longer(int64_t ns, bool came)
{
    const int64_t most = came ? WAITING_ATTEND_MAX_NS : WAITING_SLEEP_MS * CLOCK_NS_PER_MS;

    return 2 * ns < most ? 2 * ns : most;
}

/* Comes by until nothing has been left to attend to for a while. */
static void watch_over(struct progress_engine *engine)
{
    int64_t pause_ns = WAITING_ATTEND_MIN_NS;
    uint32_t visits = atomic_load(&engine->visits);

    while (may_run(engine)) {
        pause_for(engine, pause_ns, visits);
        engine_run_callbacks(engine);

        const uint32_t now = atomic_load(&engine->visits);
        const bool came = now != visits, waits = atomic_load(&engine->waiters);
        const bool idle = !came && !atomic_load(&engine->unattended);

        if (idle && pause_ns > WAITING_ATTEND_MAX_NS)
            return;
        visits = now;
        if (waits)
            engine_hand_over(engine);
        if (came || waits || idle) {
            pause_ns = longer(pause_ns, came);
        } else {
            attend(engine, visits);
            pause_ns = WAITING_ATTEND_MIN_NS;
        }
    }
}

static void *thread_main(void *argument)
{
    struct progress_engine *engine = argument;

    is_engine_thread = true;
    pthread_mutex_lock(&engine->lock);
    while (!engine->stop) {
        atomic_store(&engine->thread_comes, false); /* before the look at `unattended` */
        if (atomic_load(&engine->callers_only) ||
            (!atomic_load(&engine->unattended) && !engine->due)) {
            pthread_cond_wait(&engine->wake, &engine->lock);
            continue;
        }
        pthread_mutex_unlock(&engine->lock);
        engine_run_callbacks(engine);
        watch_over(engine);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

void engine_visit(struct progress_engine *engine)
{
    atomic_fetch_add(&engine->visits, 1);
    if (!atomic_load(&engine->thread_comes))
        engine_attend(engine);
    else if (atomic_load(&engine->asleep))
        engine_ring(engine);
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
