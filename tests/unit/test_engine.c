/* SPDX-License-Identifier: Apache-2.0 */
/* The engine over a source that the test plays. tests/rank/rank_work.c has threads that wait. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "quiet_source.h"

TestSuite(engine, .timeout = 20);

struct played {
    struct engine_source source; /* first */
    unsigned moves;              /* what progress() says */
    int looks;
    struct operation_state *ends; /* what the third look completes; NULL: nothing */
};

static unsigned progress(struct engine_source *source)
{
    return ((struct played *)source)->moves;
}

static void look(struct engine_source *source, int64_t now_ns)
{
    (void)now_ns;
    struct played *played = (struct played *)source;

    if (++played->looks == 3 && played->ends)
        atomic_store(&played->ends->status, TUTTI_OK);
}

static const struct engine_source calls = {.progress = progress,
                                           .look = look,
                                           .sleep = quiet_sleep,
                                           .may_sleep = quiet_may_sleep,
                                           .awake = quiet_awake,
                                           .shares_cpu = quiet_shares_cpu};

Test(engine, steady_traffic_does_not_hide_deadlines_from_a_poller)
{
    struct progress_engine engine;
    struct played played = {.source = calls, .moves = 1};
    int64_t end = clock_deadline_ms(100);

    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    engine_add(&engine, &played.source);
    while (clock_now_ns() < end || !played.looks)
        engine_help(&engine);
    cr_expect_geq(played.looks, 1);
    cr_expect_leq(played.looks, 10, "%d looks in 100 ms of polling", played.looks);
    engine_remove(&engine, &played.source);
    engine_fini(&engine);
}

Test(engine, a_wait_ends_with_its_own_time_although_nothing_is_complete)
{
    struct progress_engine engine;
    struct played played = {.source = calls};
    struct operation_state never = {.status = TUTTI_ERR_NOT_READY};
    int64_t began = clock_now_ns();

    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    engine_add(&engine, &played.source);
    cr_expect_not(engine_wait(&engine, &never, clock_deadline_ms(50)));
    cr_expect_geq(clock_now_ns() - began, 50 * CLOCK_NS_PER_MS);
    cr_expect_geq(played.looks, 1);
    engine_remove(&engine, &played.source);
    engine_fini(&engine);
}

Test(engine, a_waiting_thread_looks_after_deadlines_again_and_again)
{
    struct progress_engine engine;
    struct operation_state late = {.status = TUTTI_ERR_NOT_READY};
    struct played played = {.source = calls, .ends = &late};

    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    engine_add(&engine, &played.source);
    cr_expect(engine_wait(&engine, &late, clock_deadline_ms(15000)));
    engine_remove(&engine, &played.source);
    engine_fini(&engine);
}

/* A source whose polls take as long as a yield where others have the CPU; how many there were before the first look. */
struct slow {
    struct engine_source source; /* first */
    unsigned polls, polls_before_look;
};

static unsigned slow_progress(struct engine_source *source)
{
    const int64_t end = clock_now_ns() + 20000;

    while (clock_now_ns() < end)
        ;
    ((struct slow *)source)->polls++;
    return 0;
}

static void slow_look(struct engine_source *source, int64_t now_ns)
{
    struct slow *slow = (struct slow *)source;

    (void)now_ns;
    if (!slow->polls_before_look)
        slow->polls_before_look = slow->polls;
}

/* It looks before it rests. */
Test(engine, a_wait_yields_less_often_where_yields_take_long)
{
    enum { LEAST = 10, ALL = 40 };
    struct progress_engine engine;
    struct slow slow = {.source = calls};
    struct operation_state never = {.status = TUTTI_ERR_NOT_READY};

    slow.source.progress = slow_progress;
    slow.source.look = slow_look;
    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    atomic_fetch_add(&engine.oversubscribed, 1);
    engine_add(&engine, &slow.source);
    cr_expect_not(engine_wait(&engine, &never, clock_deadline_ms(50)));
    cr_expect_geq(slow.polls_before_look, LEAST);
    cr_expect_lt(slow.polls_before_look, ALL);
    engine_remove(&engine, &slow.source);
    engine_fini(&engine);
}

static unsigned quick_progress(struct engine_source *source)
{
    ((struct slow *)source)->polls++;
    return 0;
}

static bool shares_cpu(struct engine_source *source, bool asks)
{
    (void)source;
    return asks;
}

/* Whether system calls are as fast here as a yield that does not switch is taken to be. */
static bool are_calls_fast(void)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < 1000; i++) {
        const int64_t begin = clock_now_ns();

        sched_yield();
        const int64_t took = clock_now_ns() - begin;
        least = took < least ? took : least;
    }
    return least < WAITING_YIELD_ALONE_NS / 2;
}

/* How many polls a wait makes before it looks and rests. */
static unsigned polls_before_rest(bool shares)
{
    struct progress_engine engine;
    struct slow slow = {.source = calls};

    slow.source.progress = quick_progress;
    slow.source.look = slow_look;
    if (shares)
        slow.source.shares_cpu = shares_cpu;
    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    engine_add(&engine, &slow.source);
    engine_wait_ns(&engine, 5000000);
    engine_remove(&engine, &slow.source);
    engine_fini(&engine);
    return slow.polls_before_look;
}

/* Yields that come back at once are four. Where another program wants the CPU they do switch, up to 40 times. */
Test(engine, beside_a_peer_on_its_cpu_a_wait_passes_over_spins_and_yields_that_do_not_switch)
{
    enum { FEW = WAITING_SHARES_FIRST + WAITING_YIELDS_TRIED + 2, SPINS_LOOKED_AT = 1000 };
    const int64_t end = clock_deadline_ms(10000);
    unsigned least = UINT_MAX;

    cr_expect_geq(polls_before_rest(false), SPINS_LOOKED_AT);
    while (least > FEW && clock_now_ns() < end) {
        const unsigned polls = polls_before_rest(true);

        cr_assert_leq(polls, FEW + WAITING_YIELDS);
        least = polls < least ? polls : least;
        if (!are_calls_fast())
            return;
    }
    cr_expect_leq(least, FEW);
}

static void *take_and_release(void *engine)
{
    engine_take(engine);
    engine_release(engine);
    return NULL;
}

/* Else a thread that receives would keep out one that sends what it waits for. */
Test(engine, who_has_the_lock_sees_that_another_thread_wants_it)
{
    const int64_t end = clock_deadline_ms(10000);
    struct progress_engine engine;
    pthread_t other;

    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    engine_take(&engine);
    cr_expect_not(engine_is_wanted(&engine));
    cr_assert_eq(pthread_create(&other, NULL, take_and_release, &engine), 0);
    while (!engine_is_wanted(&engine) && clock_now_ns() < end)
        sched_yield();
    cr_expect(engine_is_wanted(&engine));
    engine_release(&engine);
    cr_assert_eq(pthread_join(other, NULL), 0);
    cr_expect_not(engine_is_wanted(&engine));
    engine_fini(&engine);
}

Test(engine, spinning_comes_back_when_no_group_is_oversubscribed)
{
    struct progress_engine engine;

    cr_assert_eq(engine_init(&engine), TUTTI_OK);
    cr_expect_gt(engine_spins(&engine), 0);
    atomic_fetch_add(&engine.oversubscribed, 2);
    cr_expect_eq(engine_spins(&engine), 0);
    atomic_fetch_sub(&engine.oversubscribed, 2);
    cr_expect_gt(engine_spins(&engine), 0);
    engine_fini(&engine);
}
