/* SPDX-License-Identifier: Apache-2.0 */
#include "work/engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "work/work.h"

enum {
    YIELDS = 10,           /* then sleep: more only delays whoever has the work */
    LOOK_EVERY = 1024,     /* spins and moves between two looks at the control plane */
    SLEEP_MS = 20,         /* the control plane's timers are looked at this often */
    NAP_NS = 100000,       /* beside a polled source: what a round costs, for 3 % of a CPU */
    BATON_SPINS = 100,     /* a holder keeps it for some 100 µs at most */
    BATON_SLEEP_NS = 50000 /* after that many yields the holder was preempted */
};

tutti_status engine_init(struct engine *engine)
{
    struct epoll_event event = {.events = EPOLLIN};

    *engine = (struct engine){.event_fd = -1, .spin = true};
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

void engine_fini(struct engine *engine)
{
    if (engine->thread_runs) {
        pthread_mutex_lock(&engine->lock);
        engine->stop = true;
        pthread_cond_broadcast(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
        engine_ring(engine);
        pthread_join(engine->thread, NULL);
        engine->thread_runs = false;
    }
    engine_run_callbacks(engine);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->doorbell >= 0)
        close(engine->doorbell);
    if (engine->event_fd >= 0)
        close(engine->event_fd);
    engine->epoll_fd = engine->doorbell = engine->event_fd = -1;
    pthread_cond_destroy(&engine->wake);
    pthread_mutex_destroy(&engine->lock);
}

void engine_add(struct engine *engine, struct engine_source *source)
{
    engine_take(engine);
    source->next = engine->sources;
    engine->sources = source;
    if (atomic_load(&engine->sleepers)) /* its peers have to know that, too */
        source->sleep(source);
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

tutti_status engine_watch(struct engine *engine, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot watch a descriptor");
    return TUTTI_OK;
}

void engine_unwatch(struct engine *engine, int fd)
{
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void engine_take_contended(struct engine *engine)
{
    struct timespec pause = {.tv_nsec = BATON_SLEEP_NS};

    for (unsigned tries = 0; !engine_try(engine); tries++) {
        if (tries < BATON_SPINS && engine->spin)
            engine_relax();
        else if (tries < 2 * BATON_SPINS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

static unsigned move(struct engine *engine)
{
    unsigned moved = 0;

    for (struct engine_source *s = engine->sources; s; s = s->next)
        moved += s->progress(s);
    return moved;
}

static void look(struct engine *engine)
{
    if (!engine_try(engine))
        return;
    int64_t now = clock_now_ns();
    for (struct engine_source *s = engine->sources; s; s = s->next)
        s->look(s, now);
    engine_release(engine);
}

static bool is_done(const struct operation_state *op)
{
    return atomic_load_explicit(&op->status, memory_order_acquire) != TUTTI_ERR_NOT_READY;
}

/* With the baton, so that the list of sources holds still. */
static void tell_sleep(struct engine *engine)
{
    if (atomic_fetch_add(&engine->sleepers, 1) == 0)
        for (struct engine_source *s = engine->sources; s; s = s->next)
            s->sleep(s);
}

static void tell_awake(struct engine *engine)
{
    engine_take(engine);
    if (atomic_fetch_sub(&engine->sleepers, 1) == 1)
        for (struct engine_source *s = engine->sources; s; s = s->next)
            s->awake(s);
    engine_release(engine);
}

enum rest { REST_NONE, REST_NAP, REST_SLEEP };

/* How long it may be left alone, after peers were told that we sleep: not at all while something
 * moves, a nap while somebody has to be asked. */
static enum rest rest_of(struct engine *engine, const struct operation_state *op)
{
    enum rest rest = move(engine) || (op && is_done(op)) ? REST_NONE : REST_SLEEP;

    for (struct engine_source *s = engine->sources; s && rest; s = s->next)
        if (!s->may_sleep(s))
            rest = s->polled ? REST_NAP : REST_NONE;
    return rest;
}

/* One sleep, which ends by the doorbell, a descriptor, or after SLEEP_MS. `op` may be NULL. */
static void sleep_once(struct engine *engine, const struct operation_state *op, int64_t until_ns)
{
    struct pollfd any = {.fd = engine->epoll_fd, .events = POLLIN};
    struct epoll_event events[8];
    uint64_t rings;

    engine_take(engine);
    tell_sleep(engine);
    enum rest rest = rest_of(engine, op);
    engine_release(engine);

    int timeout = clock_left_ms(until_ns, SLEEP_MS);
    if (rest == REST_NAP) /* epoll_wait() knows no less than a millisecond */
        ppoll(&any, 1, &(struct timespec){.tv_nsec = NAP_NS}, NULL);
    int n = epoll_wait(engine->epoll_fd, events, 8, rest == REST_SLEEP ? timeout : 0);
    bool rung = false;
    for (int i = 0; i < n; i++)
        if (events[i].data.fd == engine->doorbell)
            rung = read(engine->doorbell, &rings, sizeof rings) > 0;
    tell_awake(engine);
    if (rung) /* for all who sleep: nobody else will hear it */
        engine_help(engine);
}

/*
 * A ring wakes any sleeper. Who took it and will not go on moving gives it back, since the others
 * sleep until they are told.
 */
static void pass_ring_on(struct engine *engine)
{
    if (atomic_load(&engine->sleepers))
        engine_ring(engine);
}

bool engine_wait(struct engine *engine, const struct operation_state *op, int64_t until_ns)
{
    unsigned spins = engine_spins(engine), idle = 0, since_look = 0;
    bool done;

    if (is_done(op))
        return true;
    atomic_fetch_add(&engine->waiters, 1);
    while (!(done = is_done(op))) {
        unsigned moved = 0;

        if (engine_try(engine)) {
            moved = move(engine);
            engine_release(engine);
        }
        if ((done = is_done(op)))
            break;
        if (++since_look >= LOOK_EVERY) {
            since_look = 0;
            look(engine);
            if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
                break;
        }
        if (moved) {
            idle = 0;
        } else if (idle < spins) {
            idle++;
            engine_relax();
        } else if (idle < spins + YIELDS) {
            idle++;
            sched_yield();
        } else {
            look(engine);
            if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
                break;
            sleep_once(engine, op, until_ns);
        }
    }
    uint32_t others = atomic_fetch_sub(&engine->waiters, 1) - 1;
    if (others)
        pass_ring_on(engine);
    else if (atomic_load(&engine->unattended))
        engine_attend(engine); /* which rings, too */
    return done || is_done(op);
}

void engine_help(struct engine *engine)
{
    if (!engine_try(engine))
        return;
    bool moved = move(engine) != 0;
    engine_release(engine);
    if (!moved)
        look(engine);
}

/* ---- the engine thread ---- */

static void attend(struct engine *engine)
{
    while (atomic_load(&engine->unattended) && !engine->stop) {
        if (atomic_load(&engine->waiters)) {
            struct timespec until;
            int64_t at = clock_deadline_ms(SLEEP_MS);

            until.tv_sec = at / CLOCK_NS_PER_S;
            until.tv_nsec = at % CLOCK_NS_PER_S;
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
            sleep_once(engine, NULL, INT64_MAX);
            if (atomic_load(&engine->waiters))
                pass_ring_on(engine);
        }
    }
}

static void *thread_main(void *argument)
{
    struct engine *engine = argument;

    pthread_mutex_lock(&engine->lock);
    while (!engine->stop) {
        if (!atomic_load(&engine->unattended) && !engine->due) {
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
    if (!engine->thread_runs && !engine->stop)
        engine->thread_runs = !thread_start(&engine->thread, "tutti-engine", thread_main, engine);
    pthread_cond_broadcast(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (atomic_load(&engine->sleepers))
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

void engine_run_callbacks(struct engine *engine)
{
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        struct tutti_work *work = engine->due;
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

    atomic_store_explicit(&op->status, status, memory_order_release);
    if (work) {
        atomic_fetch_sub(&engine->unattended, 1);
        work_completed(work);
    }
    /* A thread of ours that sleeps may wait for just this operation. */
    if (atomic_load(&engine->sleepers))
        engine_ring(engine);
}
