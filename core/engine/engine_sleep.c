/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread rests while it waits.
 *
 * The first to sleep is the watcher: it sleeps in epoll, where the doorbell, descriptors of sources
 * and control connections end its sleep. The others sleep on a semaphore each; the thread that
 * completes an operation wakes the thread that waits for it. Peers are told before a sleep, and
 * everything is looked at once more afterwards, so nothing that was published in between is missed
 * for longer than a doze.
 */
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fence.h"
#include "engine/engine_inside.h"

void engine_wake(struct progress_engine *engine, struct sleeper *sleeper)
{
    if (sleeper == engine->watcher)
        engine_ring(engine);
    else
        sem_post(&sleeper->woken);
}

enum rest { REST_NONE, REST_NAP, REST_SLEEP };

/* How long it may be left alone, after peers were told that we sleep: not at all while something
 * moves, a nap while somebody has to be asked. */
static enum rest rest_of(struct progress_engine *engine, const struct wanted *wanted)
{
    enum rest rest = engine_move(engine) || is_any_done(wanted) ? REST_NONE : REST_SLEEP;

    for (struct engine_source *s = engine->sources; s && rest && !engine_is_barred(engine);
         s = s->next)
        if (!s->may_sleep(s))
            rest = s->polled || s->naps ? REST_NAP : REST_NONE;
    return rest;
}

/*
 * The marks that say «I sleep» need a fence that reaches local peers that publish at this moment.
 * It interrupts every CPU on which a local peer runs, which costs most when many threads wake and
 * sleep again at once. So the first sleep of a wait is a doze of a millisecond, behind a fence of
 * this CPU alone. A local peer that publishes in the nanoseconds of the mark does not ring; that
 * costs at most the rest of the doze.
 */
static void fence_before(bool doze)
{
    if (doze)
        fence_full();
    else
        fence_heavy();
}

/* How long the thread is to sleep. Under the progress lock, so that the list of sources holds still and
 * nothing completes between the look at what is wanted and the entry into the list. */
static enum rest lie_down(struct progress_engine *engine, struct sleeper *self, bool doze)
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

static void get_up(struct progress_engine *engine, struct sleeper *self)
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

/* Until the doorbell rings, a descriptor is ready, or the time is over. */
static void watch(struct progress_engine *engine, enum rest rest, int64_t end_ns)
{
    struct pollfd any = {.fd = engine->epoll_fd, .events = POLLIN};
    struct epoll_event events[8];
    uint64_t rings;

    if (rest == REST_NAP) /* epoll_wait() knows no less than a millisecond */
        ppoll(&any, 1, &(struct timespec){.tv_nsec = WAITING_NAP_NS}, NULL);
    int timeout = rest == REST_NAP ? 0 : clock_left_ms(end_ns, engine->sleep_ms);
    int n = epoll_wait(engine->epoll_fd, events, 8, timeout);
    for (int i = 0; i < n; i++)
        if (events[i].data.fd == engine->doorbell) {
            ssize_t ignored = read(engine->doorbell, &rings, sizeof rings);
            (void)ignored; /* what rang is looked for in any case */
        }
}

bool engine_sleep(struct progress_engine *engine, struct wanted wanted, int64_t until_ns, bool doze)
{
    struct sleeper self = {.wanted = wanted};
    int64_t ms = doze && WAITING_DOZE_MS < engine->sleep_ms ? WAITING_DOZE_MS : engine->sleep_ms;

    sem_init(&self.woken, 0, 0);
    engine_take(engine);
    enum rest rest = lie_down(engine, &self, doze);
    bool watches = engine->watcher == &self;
    engine_release(engine);

    int64_t end = rest == REST_NAP ? clock_now_ns() + WAITING_NAP_NS : clock_deadline_ms(ms);
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

void engine_hand_over(struct progress_engine *engine)
{
    if (!atomic_load(&engine->asleep))
        return;
    engine_take(engine);
    if (engine->sleepers && !engine->watcher)
        engine_wake(engine, engine->sleepers);
    engine_release(engine);
}
