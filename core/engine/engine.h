/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress engine of a context: which thread moves operations on, and how a thread waits.
 *
 * Everything that moves is a source (a group's operations and messages). A waiting thread moves the
 * sources under the progress lock, one atomic exchange. How a wait goes from polling to sleep is in
 * waiting.h. The first to sleep is the watcher: it sleeps in epoll on the doorbell, the sources'
 * descriptors and the control connections. Each further thread sleeps for its own operations; the
 * thread that completes one wakes it. A watcher that leaves wakes one of them, which takes its
 * place. The progress lock is never held while sleeping, so other threads start and finish their
 * own operations meanwhile. The engine thread exists once something was started that nobody waits
 * for; it moves things only while no caller does, and nothing while a plugin wants the program's
 * own threads alone: then callbacks run where a caller waits or tests. See engine_thread.c.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "engine/waiting.h"

struct progress_engine;
struct sleeper;
struct waiter;
struct tutti_work;

/* One operation in flight, embedded in whatever describes it. */
struct operation_state {
    _Atomic tutti_status status; /* TUTTI_ERR_NOT_READY until complete */
    struct tutti_work *work;     /* NULL: a blocking call, on its caller's stack */
    /* Other threads of the process move it, and need the CPU: a waiting thread does not spin. */
    bool no_spin;
};

/* Something that the engine moves. All but `sleep` and `awake` are called under the progress lock. */
struct engine_source {
    struct engine_source *next;
    /* Moves what can move; how many things moved. Called in every spin: cheap. */
    unsigned (*progress)(struct engine_source *source);
    /* Looks at control connections, verdicts and deadlines. */
    void (*look)(struct engine_source *source, int64_t now_ns);
    /* Tells peers that this process goes to sleep; true: that takes a heavy fence behind it. */
    bool (*sleep)(struct engine_source *source);
    /* Whether nothing is left to move; under the progress lock, after `sleep`. */
    bool (*may_sleep)(struct engine_source *source);
    bool polled; /* nothing wakes a sleeper for it: it is asked again and again, between naps */
    bool naps;   /* the same for the time being; set by may_sleep */
    void (*awake)(struct engine_source *source);
    /* Tells peers on which CPU this thread waits. `asks`: whether a peer that may have work to do was on the same
     * one when it waited last. */
    bool (*shares_cpu)(struct engine_source *source, bool asks);
};

struct progress_engine {
    _Atomic uint32_t progress_lock;
    _Atomic uint32_t takers;         /* threads that cannot get it: who spins under it lets go */
    _Atomic uint32_t asleep;         /* threads in `sleepers` */
    _Atomic uint32_t waiters;        /* threads inside engine_wait() */
    _Atomic uint32_t unattended;     /* started works that are not complete; set under the lock */
    _Atomic uint32_t visits;         /* of callers that started, waited for or tested works */
    _Atomic uint32_t batches;        /* works of batches whose memory is in use */
    _Atomic uint32_t callers_only;   /* groups whose plugins want no thread of ours: it rests */
    _Atomic uint32_t oversubscribed; /* groups with more members on these CPUs than there are */
    /* Until then a waiting thread does not rest; CLOCK_MONOTONIC. */
    _Atomic int64_t eager_until_ns;
    struct engine_source *sources;
    struct sleeper *sleepers, *watcher; /* under the progress lock */
    struct waiter *waits;   /* that have come to rest and are not over; under the progress lock */
    int64_t looked_ns;      /* when look() was called last; under the progress lock */
    int sleep_ms;           /* at most, before the control plane is looked at again */
    _Atomic(void *) device; /* that groups used first, of core/device; NULL: none */
    struct tutti_work *free_works;               /* memory of works; under the progress lock */
    uint32_t work_blocks;                        /* of it, in use or not; under the progress lock */
    _Atomic(struct tutti_work *) returned_works; /* free, and not in `free_works` yet */
    int epoll_fd, doorbell;
    _Atomic int event_fd; /* tutti_context_fd(); -1 until asked for */

    pthread_mutex_t lock; /* thread, callbacks, lists of works */
    pthread_cond_t wake;
    pthread_t thread;
    bool thread_runs;
    _Atomic bool thread_comes; /* soon, by itself: nobody need wake it */
    _Atomic bool stop;
    struct tutti_work *due, **due_tail; /* callbacks to run */
};

tutti_status engine_init(struct progress_engine *engine);
/* Stops the thread; no source may be left. */
void engine_fini(struct progress_engine *engine);

/* Stops the thread, for good. False: it had not ended by `until_ns` (CLOCK_MONOTONIC), or this is
 * it. */
bool engine_stop(struct progress_engine *engine, int64_t until_ns);

void engine_add(struct progress_engine *engine, struct engine_source *source);
void engine_remove(struct progress_engine *engine, struct engine_source *source);
/* A descriptor whose readiness ends a sleep; it stays the caller's. */
tutti_status engine_watch(struct progress_engine *engine, int fd);
/* The same, where only what comes anew ends a sleep: a bell that several processes share is read by nobody,
 * and an engine's own descriptor not before the next sleep in one of its operations. */
tutti_status engine_watch_edge(struct progress_engine *engine, int fd);
void engine_unwatch(struct progress_engine *engine, int fd);

static inline bool engine_try(struct progress_engine *engine)
{
    return !atomic_load_explicit(&engine->progress_lock, memory_order_relaxed) &&
           !atomic_exchange_explicit(&engine->progress_lock, 1, memory_order_acquire);
}

void engine_take_contended(struct progress_engine *engine);
/* Whether another thread wants the progress lock, which this one has. */
static inline bool engine_is_wanted(const struct progress_engine *engine)
{
    return atomic_load_explicit(&engine->takers, memory_order_relaxed) != 0;
}
/* As engine_take(), but false when somebody keeps it until `until_ns`. */
bool engine_take_until(struct progress_engine *engine, int64_t until_ns);

static inline void engine_take(struct progress_engine *engine)
{
    if (!engine_try(engine))
        engine_take_contended(engine);
}

static inline void engine_release(struct progress_engine *engine)
{
    atomic_store_explicit(&engine->progress_lock, 0, memory_order_release);
}

static inline void engine_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins worth making under the progress lock before the general wait; 0 when cores are short. */
static inline unsigned engine_spins(const struct progress_engine *engine)
{
    return atomic_load_explicit(&engine->oversubscribed, memory_order_relaxed) ? 0 : WAITING_SPINS;
}

/*
 * From `now_ns` on `bytes` move, but only while a thread polls. So a waiting thread rests only
 * after the time that they take if no peer is late: 250 MB/s is slow, and a rest costs 100 µs.
 * Under the progress lock.
 */
static inline void engine_be_eager(struct progress_engine *engine, int64_t now_ns, uint64_t bytes)
{
    const uint64_t most = bytes < WAITING_EAGER_BYTES_MAX ? bytes : WAITING_EAGER_BYTES_MAX;
    const int64_t until_ns = now_ns + WAITING_EAGER_NS + (int64_t)most * WAITING_EAGER_NS_PER_BYTE;

    if (until_ns > atomic_load_explicit(&engine->eager_until_ns, memory_order_relaxed))
        atomic_store_explicit(&engine->eager_until_ns, until_ns, memory_order_relaxed);
}

/* The call that made the engine eager has ended. */
static inline void engine_calm(struct progress_engine *engine)
{
    atomic_store_explicit(&engine->eager_until_ns, 0, memory_order_relaxed);
}

/*
 * Waits until the operation is complete, without the progress lock. False when `until_ns` (CLOCK_MONOTONIC,
 * INT64_MAX: no limit of its own) came first. Deadlines of operations are the sources' concern.
 */
bool engine_wait(struct progress_engine *engine, const struct operation_state *op,
                 int64_t until_ns);

/* Moves all groups for so long, while the thread waits for what completes no operation. */
void engine_wait_ns(struct progress_engine *engine, int64_t ns);

/* As engine_wait(), until any of the works, of which some may be NULL, is complete. */
bool engine_wait_any(struct progress_engine *engine, struct tutti_work *const *works,
                     uint32_t count, int64_t until_ns);

enum engine_waited { ENGINE_NOT_WAITED, ENGINE_WAITED_ANY, ENGINE_WAITED };

/* Whether a thread waits for it, or for any of several of which it is one; under the progress lock. Waits that have
 * not come to rest yet are not known; those that have are also between two sleeps. */
enum engine_waited engine_waited(const struct progress_engine *engine,
                                 const struct operation_state *op);

/* One started work more, or less, that is not complete; under the progress lock. */
static inline void engine_count_unattended(struct progress_engine *engine, int32_t change)
{
    const uint32_t now = atomic_load_explicit(&engine->unattended, memory_order_relaxed);

    atomic_store_explicit(&engine->unattended, now + (uint32_t)change, memory_order_relaxed);
}

/* Wakes the watcher. */
void engine_ring(struct progress_engine *engine);

/* Moves things once, as a test does. */
void engine_help(struct progress_engine *engine);

/* Completes an operation, under the progress lock; `status` is not NOT_READY. After this a blocking call's
 * memory is its caller's. */
void engine_complete(struct progress_engine *engine, struct operation_state *op,
                     tutti_status status);

/* Works are not complete: somebody has to move them when no caller waits. Wakes the thread. */
void engine_attend(struct progress_engine *engine);
/* A caller has started, waited for or tested a work, and some are not complete. The thread is not woken if
 * it comes by itself. */
void engine_visit(struct progress_engine *engine);

/* Runs the callbacks that are due. */
void engine_run_callbacks(struct progress_engine *engine);
/* The same, in a call that may run them, if the engine thread may not. */
void engine_callers_callbacks(struct progress_engine *engine);
/* One group less of those that callers_only counts. */
void engine_allow_thread(struct progress_engine *engine);
/* Queues the callback of a completed work. */
void engine_due(struct progress_engine *engine, struct tutti_work *work);
