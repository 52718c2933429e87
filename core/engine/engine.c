/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress lock, the sources that are moved under it, and waiting: spin, yield, rest, in this
 * order, each as long as it helps. What wakes a resting thread is in engine_sleep.c.
 */
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/thread.h"
#include "engine/engine_inside.h"

tutti_status engine_init(struct progress_engine *engine)
{
    struct epoll_event event = {.events = EPOLLIN};

    *engine = (struct progress_engine){.event_fd = -1, .sleep_ms = WAITING_SLEEP_MS};
    engine->due_tail = &engine->due;
    pthread_mutex_init(&engine->lock, NULL);
    thread_condition_init(&engine->wake);
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

void engine_ring(struct progress_engine *engine)
{
    uint64_t one = 1;
    ssize_t ignored = write(engine->doorbell, &one, sizeof one);

    (void)ignored; /* a counter that is full rings already */
}

void engine_fini(struct progress_engine *engine)
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

void engine_add(struct progress_engine *engine, struct engine_source *source)
{
    engine_take(engine);
    source->next = engine->sources;
    engine->sources = source;
    if (engine->watcher && source->sleep(source)) /* its peers have to know that, too */
        fence_heavy();
    engine_release(engine);
}

void engine_remove(struct progress_engine *engine, struct engine_source *source)
{
    engine_take(engine);
    for (struct engine_source **at = &engine->sources; *at; at = &(*at)->next)
        if (*at == source) {
            *at = source->next;
            break;
        }
    engine_release(engine);
}

static tutti_status watch_for(struct progress_engine *engine, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot watch a descriptor");
    return TUTTI_OK;
}

tutti_status engine_watch(struct progress_engine *engine, int fd)
{
    return watch_for(engine, fd, EPOLLIN);
}

tutti_status engine_watch_edge(struct progress_engine *engine, int fd)
{
    return watch_for(engine, fd, EPOLLIN | EPOLLET);
}

void engine_unwatch(struct progress_engine *engine, int fd)
{
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void engine_take_contended(struct progress_engine *engine)
{
    struct timespec pause = {.tv_nsec = WAITING_LOCK_SLEEP_NS};

    atomic_fetch_add(&engine->takers, 1);
    for (unsigned tries = 0; !engine_try(engine); tries++) {
        if (tries < WAITING_LOCK_SPINS && engine_spins(engine))
            engine_relax();
        else if (tries < 2 * WAITING_LOCK_SPINS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    atomic_fetch_sub(&engine->takers, 1);
}

bool engine_take_until(struct progress_engine *engine, int64_t until_ns)
{
    const struct timespec pause = {.tv_nsec = CLOCK_NS_PER_MS};

    while (!engine_try(engine)) {
        if (clock_now_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

unsigned engine_move(struct progress_engine *engine)
{
    unsigned moved = 0;

    if (engine_is_barred(engine))
        return 0;
    for (struct engine_source *s = engine->sources; s; s = s->next)
        moved += s->progress(s);
    return moved;
}

unsigned engine_try_move(struct progress_engine *engine)
{
    if (!engine_try(engine))
        return 0;
    const unsigned moved = engine_move(engine);
    engine_release(engine);
    return moved;
}

void engine_look(struct progress_engine *engine)
{
    if (!engine_try(engine))
        return;
    int64_t now = clock_now_ns();
    engine->looked_ns = now;
    for (struct engine_source *s = engine->sources; s && !engine_is_barred(engine); s = s->next)
        s->look(s, now);
    engine_release(engine);
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

/* ---- waiting ---- */

/* Whether not to rest after all, where rest would be due. */
static bool is_eager(const struct progress_engine *engine)
{
    const int64_t until_ns = atomic_load_explicit(&engine->eager_until_ns, memory_order_relaxed);

    return until_ns && clock_now_ns() < until_ns;
}

/* How long a wait has found nothing to move, and what it did about it. */
struct patience {
    unsigned idle;
    int64_t yields_ns; /* since when it yields */
    int64_t tried_ns;  /* that the first yields took */
    bool shares;       /* a peer is on this CPU */
    bool slept;
};

/* Enters the list of waiters with the first rest of a wait: a wait that ends before costs nothing
 * more. */
static void enter(struct progress_engine *engine, struct waiter *waiter,
                  const struct wanted *wanted)
{
    if (waiter->wanted)
        return;
    waiter->wanted = wanted;
    engine_take(engine);
    waiter->next = engine->waits;
    engine->waits = waiter;
    engine_release(engine);
}

static void leave(struct progress_engine *engine, struct waiter *waiter)
{
    struct waiter **at = &engine->waits;

    if (!waiter->wanted)
        return;
    engine_take(engine);
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    engine_release(engine);
}

static bool is_one_of_several(const struct wanted *wanted, const struct operation_state *op)
{
    for (uint32_t i = 0; !wanted->op && i < wanted->count; i++)
        if (wanted->works[i] && wanted->works[i]->state != op)
            return true;
    return false;
}

enum engine_waited engine_waited(const struct progress_engine *engine,
                                 const struct operation_state *op)
{
    enum engine_waited waited = ENGINE_NOT_WAITED;

    for (const struct waiter *w = engine->waits; w && waited != ENGINE_WAITED; w = w->next)
        if (is_wanted(w->wanted, op))
            waited = is_one_of_several(w->wanted, op) ? ENGINE_WAITED_ANY : ENGINE_WAITED;
    return waited;
}

/* Tells on which CPU this thread waits. `asks`: whether a peer that may have work to do is on it, too. */
static bool shares_cpu(struct progress_engine *engine, bool asks)
{
    bool shares = false;

    if (!engine_try(engine))
        return false;
    for (struct engine_source *s = engine->sources; s; s = s->next)
        shares |= s->shares_cpu(s, asks && !shares);
    engine_release(engine);
    return shares;
}

/* Where a peer is on this CPU: passes over the spins, and over the yields if the first ones have not switched. */
static void leave_cpu(struct progress_engine *engine, unsigned spins, struct patience *patience)
{
    if (patience->idle < spins) {
        patience->shares = patience->idle % WAITING_SHARES_EVERY == WAITING_SHARES_FIRST &&
                           shares_cpu(engine, true);
        if (patience->shares)
            patience->idle = spins;
    } else if (patience->idle == 0) {
        (void)shares_cpu(engine, false);
    } else if (patience->idle == spins + WAITING_YIELDS_TRIED &&
               patience->tried_ns < WAITING_YIELDS_TRIED * WAITING_YIELD_ALONE_NS &&
               shares_cpu(engine, true)) {
        patience->shares = true;
        patience->idle = spins + WAITING_YIELDS;
    }
}

/* Whether the next yield may help. Where several threads of a CPU wait, each of them takes long. */
static bool may_yield(struct patience *patience, unsigned yields)
{
    if (!yields)
        patience->yields_ns = clock_now_ns();
    return yields < WAITING_YIELDS && (yields < WAITING_YIELDS_MIN ||
                                       clock_now_ns() - patience->yields_ns < WAITING_YIELDS_NS);
}

static void yield(struct patience *patience, unsigned yields)
{
    const bool timed = yields < WAITING_YIELDS_TRIED;
    const int64_t begin = timed ? clock_now_ns() : 0;

    sched_yield();
    if (timed)
        patience->tried_ns += clock_now_ns() - begin;
}

/* Spins, yields, and rests once neither helps. False: `until_ns` has come. */
static bool be_patient(struct progress_engine *engine, const struct wanted *wanted,
                       int64_t until_ns, unsigned spins, struct patience *patience,
                       struct waiter *waiter)
{
    leave_cpu(engine, spins, patience);
    if (patience->idle < spins) {
        engine_relax();
        patience->idle++;
        return true;
    }
    if (may_yield(patience, patience->idle - spins)) {
        yield(patience, patience->idle - spins);
        patience->idle++;
        return true;
    }
    if (is_eager(engine)) {
        if (spins && !patience->shares)
            engine_relax();
        else
            sched_yield();
        return true;
    }
    engine_look(engine);
    if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
        return false;
    if (!is_eager(engine)) {
        enter(engine, waiter, wanted);
        patience->slept |= engine_sleep(engine, *wanted, until_ns, !patience->slept);
    }
    return true;
}

/* Whether other threads of the process do all that is wanted. */
static bool must_not_spin(const struct wanted *wanted)
{
    if (wanted->op)
        return wanted->op->no_spin;
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->works[i] && !wanted->works[i]->state->no_spin)
            return false;
    return true;
}

static bool wait_for(struct progress_engine *engine, const struct wanted *wanted, int64_t until_ns)
{
    const unsigned spins = must_not_spin(wanted) ? 0 : engine_spins(engine);
    struct patience patience = {0};
    struct waiter waiter = {0};
    unsigned since_look = 0;

    if (is_any_done(wanted))
        return true;
    atomic_fetch_add(&engine->waiters, 1);
    while (!is_any_done(wanted)) {
        const unsigned moved = engine_try_move(engine);

        if (is_any_done(wanted))
            break;
        if (++since_look >= WAITING_LOOK_EVERY) {
            since_look = 0;
            engine_look(engine);
            if (until_ns != INT64_MAX && clock_now_ns() >= until_ns)
                break;
        }
        if (moved)
            patience = (struct patience){0};
        else if (!be_patient(engine, wanted, until_ns, spins, &patience, &waiter))
            break;
    }
    leave(engine, &waiter);
    if (atomic_fetch_sub(&engine->waiters, 1) > 1)
        engine_hand_over(engine);
    else if (atomic_load(&engine->unattended))
        engine_visit(engine);
    return is_any_done(wanted);
}

bool engine_wait(struct progress_engine *engine, const struct operation_state *op, int64_t until_ns)
{
    return wait_for(engine, &(struct wanted){.op = op}, until_ns);
}

void engine_wait_ns(struct progress_engine *engine, int64_t ns)
{
    const struct operation_state never = {.status = TUTTI_ERR_NOT_READY};

    (void)engine_wait(engine, &never, clock_now_ns() + ns);
}

bool engine_wait_any(struct progress_engine *engine, struct tutti_work *const *works,
                     uint32_t count, int64_t until_ns)
{
    return wait_for(engine, &(struct wanted){.works = works, .count = count}, until_ns);
}

void engine_help(struct progress_engine *engine)
{
    atomic_fetch_add(&engine->visits, 1);
    if (!engine_try(engine))
        return;
    bool moved = engine_move(engine) != 0;
    int64_t looked_ns = engine->looked_ns;
    engine_release(engine);
    /* Steady traffic must not hide a deadline or a verdict from a polling thread. */
    if (!moved || clock_now_ns() - looked_ns >= WAITING_SLEEP_MS * CLOCK_NS_PER_MS)
        engine_look(engine);
}

void engine_complete(struct progress_engine *engine, struct operation_state *op,
                     tutti_status status)
{
    struct tutti_work *work = op->work;

    for (struct sleeper *s = engine->sleepers; s; s = s->next)
        if (is_wanted(&s->wanted, op))
            engine_wake(engine, s);
    atomic_store_explicit(&op->status, status, memory_order_release);
    if (work) {
        engine_count_unattended(engine, -1);
        work_completed(work);
    }
}
