/* SPDX-License-Identifier: Apache-2.0 */
#include "work/engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/thread.h"
#include "work/work.h"

enum {
    YIELDS = 10,           /* then sleep: more only delays whoever has the work */
    LOOK_EVERY = 1024,     /* spins and moves between two looks at the control plane */
    SLEEP_MS = 20,         /* the control plane's timers are looked at this often */
    DOZE_MS = 1,           /* the first sleep of a wait */
    NAP_NS = 100000,       /* beside a polled source: what a round costs, for 3 % of a CPU */
    BATON_SPINS = 100,     /* a holder keeps it for some 100 µs at most */
    BATON_SLEEP_NS = 50000 /* after that many yields the holder was preempted */
};

/* What a thread waits for: one operation, or any of some works. */
struct wanted {
    const struct operation_state *op;
    struct tutti_work *const *works;
    uint32_t count;
};

/* A thread that sleeps; on its stack, and in the engine's list until it has the baton again. */
struct sleeper {
    struct sleeper *next;
    struct wanted wanted;
    sem_t woken; /* unless it is the watcher */
};

tutti_status engine_init(struct engine *engine)
{
    struct epoll_event event = {.events = EPOLLIN};

    *engine = (struct engine){.event_fd = -1, .sleep_ms = SLEEP_MS};
    engine->due_tail = &engine->due;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    event.data.fd = engine->doorbell;
    if (engine->epoll_fd < 0 || engine->doorbell < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->doorbell, &event)) {
        int error = errno;
        engine_fini(engine);
        return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot make the engine's descriptors");
    }
    return TUTTI_OK;
}

void engine_ring(struct engine *engine)
{
    uint64_t one = 1;
    ssize_t ignored = write(engine->doorbell, &one, sizeof one);

    (void)ignored; /* a counter that is full rings already */
}

/* A join with a deadline; the system's own with CLOCK_MONOTONIC is unknown to ThreadSanitizer. */
static bool join_thread(struct engine *engine, int64_t until_ns)
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

bool engine_stop(struct engine *engine, int64_t until_ns)
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

void engine_fini(struct engine *engine)
{
    (void)engine_stop(engine, INT64_MAX);
    engine_run_callbacks(engine);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->doorbell >= 0)
        close(engine->doorbell);
    if (engine->event_fd >= 0)
        close(engine->event_fd);
    engine->epoll_fd = engine->doorbell = -1;
    engine->event_fd = -1;
    pthread_cond_destroy(&engine->wake);
    pthread_mutex_destroy(&engine->lock);
}

void engine_add(struct engine *engine, struct engine_source *source)
{
    engine_take(engine);
    source->next = engine->sources;
    engine->sources = source;
    if (engine->watcher && source->sleep(source)) /* its peers have to know that, too */
        fence_heavy();
    engine_release(engine);
}

void engine_remove(struct engine *engine, struct engine_source *source)
{
    engine_take(engine);
    for (struct engine_source **at = &engine->sources; *at; at = &(*at)->next)
        if (*at == source) {
            *at = source->next;
            break;
        }
    engine_release(engine);
}

static tutti_status watch_for(struct engine *engine, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot watch a descriptor");
    return TUTTI_OK;
}

tutti_status engine_watch(struct engine *engine, int fd)
{
    return watch_for(engine, fd, EPOLLIN);
}

tutti_status engine_watch_bell(struct engine *engine, int fd)
{
    return watch_for(engine, fd, EPOLLIN | EPOLLET);
}

void engine_unwatch(struct engine *engine, int fd)
{
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void engine_take_contended(struct engine *engine)
{
    struct timespec pause = {.tv_nsec = BATON_SLEEP_NS};

    for (unsigned tries = 0; !engine_try(engine); tries++) {
        if (tries < BATON_SPINS && engine_spins(engine))
            engine_relax();
        else if (tries < 2 * BATON_SPINS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

bool engine_take_until(struct engine *engine, int64_t until_ns)
{
    const struct timespec pause = {.tv_nsec = CLOCK_NS_PER_MS};

    while (!engine_try(engine)) {
        if (clock_now_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static _Thread_local bool is_engine_thread;

/* Whether this thread may not touch the sources. With the baton, so that the answer holds. */
static bool is_barred(const struct engine *engine)
{
    return is_engine_thread && atomic_load_explicit(&engine->callers_only, memory_order_relaxed);
}

static unsigned move(struct engine *engine)
{
    unsigned moved = 0;

    if (is_barred(engine))
        return 0;
    for (struct engine_source *s = engine->sources; s; s = s->next)
        moved += s->progress(s);
    return moved;
}

static void look(struct engine *engine)
{
    if (!engine_try(engine))
        return;
    int64_t now = clock_now_ns();
    engine->looked_ns = now;
    for (struct engine_source *s = engine->sources; s && !is_barred(engine); s = s->next)
        s->look(s, now);
    engine_release(engine);
}

static bool is_done(const struct operation_state *op)
{
    return atomic_load_explicit(&op->status, memory_order_acquire) != TUTTI_ERR_NOT_READY;
}

static bool any_done(const struct wanted *wanted)
{
    if (wanted->op)
        return is_done(wanted->op);
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->works[i] && is_done(wanted->works[i]->state))
            return true;
    return false;
}

static bool is_wanted(const struct wanted *wanted, const struct operation_state *op)
{
    if (wanted->op)
        return wanted->op == op;
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->works[i] && wanted->works[i]->state == op)
            return true;
    return false;
}

/* ---- sleeping ---- */

/* With the baton, which the sleeper needs to leave: it is there until this is over. */
static void wake(struct engine *engine, struct sleeper *sleeper)
{
    if (sleeper == engine->watcher)
        engine_ring(engine);
    else
        sem_post(&sleeper->woken);
}

enum rest { REST_NONE, REST_NAP, REST_SLEEP };

/* How long it may be left alone, after peers were told that we sleep: not at all while something
 * moves, a nap while somebody has to be asked. */
static enum rest rest_of(struct engine *engine, const struct wanted *wanted)
{
    enum rest rest = move(engine) || any_done(wanted) ? REST_NONE : REST_SLEEP;

    for (struct engine_source *s = engine->sources; s && rest && !is_barred(engine); s = s->next)
        if (!s->may_sleep(s))
            rest = s->polled ? REST_NAP : REST_NONE;
    return rest;
}

/*
 * The marks that say «I sleep» need a fence that reaches those who publish just now. It interrupts
 * every CPU on which a mate runs, which hurts most when many wake and lie down again at once. So the
 * first sleep of a wait is a doze of a millisecond, behind a fence of this CPU alone: what is lost
 * when somebody publishes in the very nanoseconds of the mark is the rest of the doze.
 */
static void fence_before(bool doze)
{
    if (doze)
        fence_full();
    else
        fence_heavy();
}

/* How long the thread is to sleep. With the baton, so that the list of sources holds still and
 * nothing completes between the look at what is wanted and the entry into the list. */
static enum rest lie_down(struct engine *engine, struct sleeper *self, bool doze)
{
    if (!engine->watcher) {
        bool fence = false;

        engine->watcher = self;
        for (struct engine_source *s = engine->sources; s; s = s->next)
            fence |= s->sleep(s);
        if (fence) /* one for all groups */
            fence_before(doze);
    }
    enum rest rest = rest_of(engine, &self->wanted);
    if (rest) {
        self->next = engine->sleepers;
        engine->sleepers = self;
        atomic_fetch_add(&engine->asleep, 1);
    }
    return rest;
}

static void get_up(struct engine *engine, struct sleeper *self)
{
    for (struct sleeper **at = &engine->sleepers; *at; at = &(*at)->next)
        if (*at == self) {
            *at = self->next;
            atomic_fetch_sub(&engine->asleep, 1);
            break;
        }
    if (engine->watcher != self)
        return;
    engine->watcher = NULL;
    for (struct engine_source *s = engine->sources; s; s = s->next)
        s->awake(s);
}

static struct timespec timespec_of(int64_t at_ns)
{
    return (struct timespec){.tv_sec = at_ns / CLOCK_NS_PER_S, .tv_nsec = at_ns % CLOCK_NS_PER_S};
}

/* Until the doorbell rings, a descriptor is ready, or the time is over. */
static void watch(struct engine *engine, enum rest rest, int64_t end_ns)
{
    struct pollfd any = {.fd = engine->epoll_fd, .events = POLLIN};
    struct epoll_event events[8];
    uint64_t rings;

    if (rest == REST_NAP) /* epoll_wait() knows no less than a millisecond */
        ppoll(&any, 1, &(struct timespec){.tv_nsec = NAP_NS}, NULL);
    int timeout = rest == REST_NAP ? 0 : clock_left_ms(end_ns, engine->sleep_ms);
    int n = epoll_wait(engine->epoll_fd, events, 8, timeout);
    for (int i = 0; i < n; i++)
        if (events[i].data.fd == engine->doorbell) {
            ssize_t ignored = read(engine->doorbell, &rings, sizeof rings);
            (void)ignored; /* what rang is looked for in any case */
        }
}

/* One sleep, which ends when somebody wakes this thread, or after `sleep_ms`. Whether it lasted: a
 * bell may ring for others. */
static bool sleep_once(struct engine *engine, struct wanted wanted, int64_t until_ns, bool doze)
{
    struct sleeper self = {.wanted = wanted};
    int64_t ms = doze && DOZE_MS < engine->sleep_ms ? DOZE_MS : engine->sleep_ms;

    sem_init(&self.woken, 0, 0);
    engine_take(engine);
    enum rest rest = lie_down(engine, &self, doze);
    bool watches = engine->watcher == &self;
    engine_release(engine);

    int64_t end = rest == REST_NAP ? clock_now_ns() + NAP_NS : clock_deadline_ms(ms);
    end = end < until_ns ? end : until_ns;
    struct timespec at = timespec_of(end);
    if (!rest)
        sched_yield();
    else if (watches)
        watch(engine, rest, end);
    else
        (void)sem_clockwait(&self.woken, CLOCK_MONOTONIC, &at);
    engine_take(engine);
    get_up(engine, &self);
    engine_release(engine);
    sem_destroy(&self.woken);
    return clock_now_ns() >= end;
}

/* Who leaves may have been the watcher, or have taken what was meant for the next one: if nobody
 * watches, one of those who sleep gets up and looks itself. */
static void hand_over(struct engine *engine)
{
    if (!atomic_load(&engine->asleep))
        return;
    engine_take(engine);
    if (engine->sleepers && !engine->watcher)
        wake(engine, engine->sleepers);
    engine_release(engine);
}

/* ---- waiting ---- */

/* Whether not to rest after all, where rest would be due. */
static bool is_eager(const struct engine *engine)
{
    const int64_t until_ns = atomic_load_explicit(&engine->eager_until_ns, memory_order_relaxed);

    return until_ns && clock_now_ns() < until_ns;
}

static bool wait_for(struct engine *engine, const struct wanted *wanted, int64_t until_ns)
{
    unsigned spins = engine_spins(engine), idle = 0, since_look = 0;
    bool done, slept = false;

    if (any_done(wanted))
        return true;
    atomic_fetch_add(&engine->waiters, 1);
    while (!(done = any_done(wanted))) {
        unsigned moved = 0;

        if (engine_try(engine)) {
            moved = move(engine);
            engine_release(engine);
        }
        if ((done = any_done(wanted)))
            break;
        if (++since_look >= LOOK_EVERY) {
            since_look = 0;
            look(engine);
            if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
                break;
        }
        if (moved) {
            idle = 0;
            slept = false;
        } else if (idle < spins) {
            idle++;
            engine_relax();
        } else if (idle < spins + YIELDS) {
            idle++;
            sched_yield();
        } else if (is_eager(engine)) {
            if (spins)
                engine_relax();
            else
                sched_yield();
        } else {
            look(engine);
            if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
                break;
            if (!is_eager(engine))
                slept |= sleep_once(engine, *wanted, until_ns, !slept);
        }
    }
    if (atomic_fetch_sub(&engine->waiters, 1) > 1)
        hand_over(engine);
    else if (atomic_load(&engine->unattended))
        engine_attend(engine);
    return done || any_done(wanted);
}

bool engine_wait(struct engine *engine, const struct operation_state *op, int64_t until_ns)
{
    return wait_for(engine, &(struct wanted){.op = op}, until_ns);
}

bool engine_wait_any(struct engine *engine, struct tutti_work *const *works, uint32_t count,
                     int64_t until_ns)
{
    return wait_for(engine, &(struct wanted){.works = works, .count = count}, until_ns);
}

void engine_help(struct engine *engine)
{
    if (!engine_try(engine))
        return;
    bool moved = move(engine) != 0;
    int64_t looked_ns = engine->looked_ns;
    engine_release(engine);
    /* Steady traffic must not hide a deadline or a verdict from who polls. */
    if (!moved || clock_now_ns() - looked_ns >= SLEEP_MS * CLOCK_NS_PER_MS)
        look(engine);
}

/* ---- the engine thread ---- */

static void attend(struct engine *engine)
{
    bool slept = false;

    while (atomic_load(&engine->unattended) && !atomic_load(&engine->stop) &&
           !atomic_load(&engine->callers_only)) {
        if (atomic_load(&engine->waiters)) {
            struct timespec until = timespec_of(clock_deadline_ms(SLEEP_MS));

            hand_over(engine);
            pthread_mutex_lock(&engine->lock);
            if (!engine->stop && !engine->due)
                pthread_cond_timedwait(&engine->wake, &engine->lock, &until);
            pthread_mutex_unlock(&engine->lock);
            engine_run_callbacks(engine);
            continue;
        }
        unsigned moved = 0;
        if (engine_try(engine)) {
            moved = move(engine);
            engine_release(engine);
        }
        engine_run_callbacks(engine);
        if (!moved) {
            look(engine);
            slept |= sleep_once(engine, (struct wanted){.count = 0}, INT64_MAX, !slept);
        } else {
            slept = false;
        }
    }
}

static void *thread_main(void *argument)
{
    struct engine *engine = argument;

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

void engine_attend(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    if (!engine->thread_runs && !engine->stop && !atomic_load(&engine->callers_only))
        engine->thread_runs = !thread_start(&engine->thread, "tutti-engine", thread_main, engine);
    pthread_cond_broadcast(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (atomic_load(&engine->asleep))
        engine_ring(engine);
}

void engine_due(struct engine *engine, struct tutti_work *work)
{
    pthread_mutex_lock(&engine->lock);
    work->next_due = NULL;
    *engine->due_tail = work;
    engine->due_tail = &work->next_due;
    pthread_mutex_unlock(&engine->lock);
    engine_attend(engine);
}

void engine_allow_thread(struct engine *engine)
{
    atomic_fetch_sub(&engine->callers_only, 1);
    pthread_mutex_lock(&engine->lock);
    bool due = engine->due != NULL;
    pthread_mutex_unlock(&engine->lock);
    if (due || atomic_load(&engine->unattended))
        engine_attend(engine);
}

void engine_callers_callbacks(struct engine *engine)
{
    if (atomic_load(&engine->callers_only))
        engine_run_callbacks(engine);
}

void engine_run_callbacks(struct engine *engine)
{
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        struct tutti_work *work = is_barred(engine) ? NULL : engine->due;
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

void engine_complete(struct engine *engine, struct operation_state *op, tutti_status status)
{
    struct tutti_work *work = op->work;

    for (struct sleeper *s = engine->sleepers; s; s = s->next)
        if (is_wanted(&s->wanted, op))
            wake(engine, s);
    atomic_store_explicit(&op->status, status, memory_order_release);
    if (work) {
        atomic_fetch_sub(&engine->unattended, 1);
        work_completed(work);
    }
}
