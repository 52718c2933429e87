/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that something is done to. What they call comes from TUTTI_TEST_CALL, how long they wait at
 * most from TUTTI_TEST_TIMEOUT_MS (in init) and TUTTI_TEST_CALL_MS, and the rank that behaves
 * differently from TUTTI_TEST_VICTIM; TUTTI_TEST_URL is where they meet, if not as the harness says.
 * What a call returned is told as `status` and `words`, and when, as the point `returned`.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank_tell.h"

#include "unit/no_memory.h"

/* Floats: 8 B and 16 MiB, of which ThreadSanitizer would make minutes. */
#ifdef __SANITIZE_THREAD__
enum { SMALL = 2, MEDIUM = 8000, LARGE = 256 << 10 };
#else
enum { SMALL = 2, MEDIUM = 8000, LARGE = 4 << 20 };
#endif
enum { LAPS = 20, TAG = 7, SENT_BEFORE = 2 };

static float memory[LARGE];

static tutti_status init(tutti_group **ret_world)
{
    tutti_init_options known = TUTTI_INIT_OPTIONS_INIT;

    known.timeout_ms = number_of("TUTTI_TEST_TIMEOUT_MS", 20000);
    known.init_url = getenv("TUTTI_TEST_URL");
    return tutti_init(&known, ret_world);
}

static tutti_group *join(void)
{
    tutti_group *world = 0;

    require_ok(init(&world));
    return world;
}

static tutti_tensor floats(int64_t *count)
{
    return (tutti_tensor){.data = memory,
                          .device = {TUTTI_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = TUTTI_F32,
                          .shape = count};
}

static bool is_early; /* nothing has been done to anybody: the group's own deadline */

static const tutti_options *options(void)
{
    static tutti_options known = TUTTI_OPTIONS_INIT;

    known.timeout_ms = is_early ? 0 : number_of("TUTTI_TEST_CALL_MS", 0);
    return &known;
}

static tutti_status sum(tutti_group *world, int64_t count, bool wait_for_work)
{
    tutti_tensor tensor = floats(&count);
    tutti_work *work = 0;

    tutti_status status =
        tutti_all_reduce(world, &tensor, TUTTI_SUM, options(), wait_for_work ? &work : 0);
    if (!status && work)
        status = tutti_work_wait(work, 0);
    tutti_work_free(work);
    return status;
}

static tutti_status call(tutti_group *world, int rank, int size)
{
    const char *what = getenv("TUTTI_TEST_CALL");
    int64_t small = SMALL, large = LARGE;
    tutti_tensor few = floats(&small), many = floats(&large);

    if (!what || !strcmp(what, "barrier"))
        return tutti_barrier(world, options(), 0);
    if (!strcmp(what, "small"))
        return sum(world, SMALL, false);
    if (!strcmp(what, "medium"))
        return sum(world, MEDIUM, false);
    if (!strcmp(what, "large"))
        return sum(world, LARGE, false);
    if (!strcmp(what, "work"))
        return sum(world, LARGE, true);
    if (!strcmp(what, "broadcast"))
        return tutti_broadcast(world, &many, size - 1, options(), 0);
    if (!strcmp(what, "messages")) /* large, from all to the last */
        return rank < size - 1 ? tutti_send(world, &many, size - 1, TAG, options())
                               : tutti_recv(world, &many, 0, TAG, options(), 0);
    if (!strcmp(what, "message")) { /* from the victim to all */
        if (rank != victim())
            return tutti_recv(world, &few, victim(), TAG, options(), 0);
        for (int r = 0; r < size; r++)
            if (r != rank)
                check_ok(tutti_send(world, &few, r, TAG, 0));
        return TUTTI_OK;
    }
    check(!"a known call");
    return TUTTI_ERR_INTERNAL;
}

/* After a verdict: the next call and destroy return the same. */
static void finish(tutti_group *world, tutti_status status)
{
    char words[2048];

    tell(status);
    snprintf(words, sizeof words, "%s", tutti_last_error());
    if (status) {
        check_status(tutti_barrier(world, 0, 0), status);
        check_str_eq(tutti_last_error(), words);
        check_status(sum(world, SMALL, true), status);
        check_str_eq(tutti_last_error(), words);
    }
    check_status(tutti_group_destroy(world), status);
    rank_point("left");
}

/* Calls until something goes wrong. */
RANK_CASE(calls_for_ever)
{
    tutti_group *world = join();
    tutti_status status = TUTTI_OK;

    is_early = true;
    for (int i = 0; !status; i++) {
        status = call(world, rank, size);
        if (i == (rank == victim() ? 0 : LAPS))
            rank_point("running");
        is_early = i < LAPS;
    }
    finish(world, status);
}

/* The victim stays away from a call in which the others wait; with TUTTI_TEST_TOLD they begin it when they are
 * told to. */
RANK_CASE(one_stays_away)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim())
        rank_await("never");
    if (number_of("TUTTI_TEST_TOLD", 0))
        rank_await("go");
    rank_point("calling");
    finish(world, call(world, rank, size));
}

/* As one_stays_away, but the others call later than TUTTI_TEST_EARLY, so that their deadlines do, too. */
RANK_CASE(one_stays_away_and_one_is_early)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim())
        rank_await("never");
    if (rank != number_of("TUTTI_TEST_EARLY", -1))
        rank_sleep_ms(number_of("TUTTI_TEST_CALL_MS", 0) * 3 / 10); /* VERDICT_MS and more */
    finish(world, call(world, rank, size));
}

/* The victim hangs outside of tutti; the others call when they are told to, end as soon as they hear of it, and
 * leave nothing. */
RANK_CASE(one_hangs_and_the_others_exit)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    rank_await(rank == victim() ? "never" : "go");
    rank_point("calling");
    tell(call(world, rank, size));
    exit(1);
}

/* The victim waits for a message that nobody sends while the others are in a call. */
RANK_CASE(one_waits_elsewhere)
{
    tutti_group *world = join();
    int64_t count = SMALL;
    tutti_tensor few = floats(&count);

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    finish(world, rank == victim() ? tutti_recv(world, &few, (rank + 1) % size, TAG, 0, 0)
                                   : call(world, rank, size));
}

/* TUTTI_TEST_LATE comes into a call in which the others wait when it is told to. */
RANK_CASE(one_is_late)
{
    tutti_group *world = join();
    tutti_status status = TUTTI_OK;

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == number_of("TUTTI_TEST_LATE", -1))
        rank_await("go");
    while (!status)
        status = call(world, rank, size);
    finish(world, status);
}

/* The deadline of a message is its own: the group goes on. */
RANK_CASE(receives_time_out)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim()) {
        rank_await("go");
    } else {
        tell(call(world, rank, size));
    }
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
}

/* All are between two calls. */
RANK_CASE(idle_then_calls)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    rank_await("go");
    rank_point("going");
    finish(world, call(world, rank, size));
}

/* The group is there, and nobody has called anything. */
RANK_CASE(calls_when_told)
{
    tutti_group *world = join();

    rank_point("open");
    rank_await("go");
    finish(world, call(world, rank, size));
}

/* Before init. With TUTTI_TEST_TOGETHER all wait until all are there: deadlines do not run while ranks
 * are started. */
static void come(void)
{
    rank_point("here");
    if (number_of("TUTTI_TEST_TOGETHER", 0))
        rank_await("join");
}

/* The victim says when it has come into init; rank_await() holds back the ranks that are told
 * so. */
RANK_CASE(in_init)
{
    tutti_group *world = 0;

    come();
    if (rank == number_of("TUTTI_TEST_LATE", -1))
        rank_await("go");
    rank_point("in_init");
    tutti_status status = init(&world);
    if (status) {
        tell(status);
        return;
    }
    rank_point("open");
    while (!status)
        status = call(world, rank, size);
    finish(world, status);
}

/* Each rank joins when it is told to; one is told later than the others. */
RANK_CASE(one_late_in_init)
{
    tutti_group *world = 0;

    rank_point("here");
    rank_await("go");
    rank_point("in_init");
    tutti_status status = init(&world);
    tell(status);
    check(status != TUTTI_OK);
}

/* The victim does not call init at all. */
RANK_CASE(one_never_joins)
{
    tutti_group *world = 0;

    come();
    if (rank == victim())
        rank_await("never");
    tutti_status status = init(&world);
    tell(status);
    check(status != TUTTI_OK);
}

/* The victim ends without a word of its own while the others wait for it. */
RANK_CASE(one_exits)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim()) {
        rank_await("go");
        rank_point("exiting");
        exit(0);
    }
    finish(world, call(world, rank, size));
}

/* The victim leaves in order, yet the others have one more call. */
RANK_CASE(one_leaves_first)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim()) {
        rank_await("go"); /* all have returned from the barrier */
        rank_point("leaving");
        check_ok(tutti_group_destroy(world));
        return;
    }
    finish(world, call(world, rank, size));
}

/* Until it is refused. */
static void send_to_who_left(tutti_group *world, int peer)
{
    int64_t count = SMALL;
    tutti_tensor few = floats(&count);
    tutti_status status = TUTTI_OK;
    char who[32];

    while (!status)
        status = tutti_send(world, &few, peer, TAG, 0);
    snprintf(who, sizeof who, "rank %d left the group", peer);
    check_status(status, TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), who);
}

/* It has sent nothing with this tag: the message names the tag, which may be the wrong one. */
static void receive_what_was_not_sent(tutti_group *world, int peer)
{
    int64_t count = SMALL;
    tutti_tensor few = floats(&count);
    char who[80];

    snprintf(who, sizeof who, "rank %d left the group and sent no more messages with tag %d", peer,
             TAG + 1);
    check_status(tutti_recv(world, &few, peer, TAG + 1, 0, 0), TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), who);
}

/* The others look for what the victim has sent when it is gone; with TUTTI_TEST_SEND_FIRST they find out before
 * that nothing can be sent to it any more. */
RANK_CASE(one_sends_and_leaves)
{
    tutti_group *world = join();

    check_ok(call(world, rank, size)); /* all are connected */
    if (rank != victim())
        rank_await("go");
    if (rank != victim() && number_of("TUTTI_TEST_SEND_FIRST", 0))
        send_to_who_left(world, victim());
    for (int i = 0; i < SENT_BEFORE; i++)
        check_ok(call(world, rank, size));
    if (rank != victim())
        receive_what_was_not_sent(world, victim());
    check_ok(tutti_group_destroy(world));
    rank_point("left");
}

/* Each leaves when its own part of the last call is done; some parts need the victim, which is
 * late. */
RANK_CASE(each_leaves_when_it_is_done)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim())
        rank_await("go");
    check_ok(call(world, rank, size));
    check_ok(tutti_group_destroy(world));
    rank_point("left");
}

static void check_forked(tutti_group *world, tutti_work *work, tutti_store *store)
{
    int64_t count = SMALL;
    tutti_tensor few = floats(&count);
    tutti_group_info info = {.struct_size = sizeof info};
    int32_t done = 0;
    int64_t sum_of = 0;

    check_status(tutti_barrier(world, 0, 0), TUTTI_ERR_FORKED);
    check_contains(tutti_last_error(), "fork");
    check_status(tutti_all_reduce(world, &few, TUTTI_SUM, 0, 0), TUTTI_ERR_FORKED);
    check_status(tutti_broadcast(world, &few, 0, 0, 0), TUTTI_ERR_FORKED);
    check_status(tutti_send(world, &few, 1, TAG, 0), TUTTI_ERR_FORKED);
    check_status(tutti_recv(world, &few, 1, TAG, 0, 0), TUTTI_ERR_FORKED);
    check_status(tutti_group_status(world, &info), TUTTI_ERR_FORKED);
    check_status(tutti_group_abort(world, "no"), TUTTI_ERR_FORKED);
    check_status(tutti_work_wait(work, 100), TUTTI_ERR_FORKED);
    check_status(tutti_work_test(work, &done), TUTTI_ERR_FORKED);
    check_status(tutti_store_add(store, "key", 1, 1000, &sum_of), TUTTI_ERR_FORKED);
    check_status(tutti_group_destroy(world), TUTTI_ERR_FORKED);
}

/* Children of all ranks use what they inherited, and end in the two usual ways. Under ThreadSanitizer no call is under way
 * meanwhile: its allocator does not give its locks back in a child, so a child that was forked while another thread
 * allocates may hang. */
RANK_CASE(children_are_told_that_they_forked)
{
    tutti_group *world = join();
    tutti_store *store = 0;
    tutti_work *work = 0;
    int64_t count = LARGE;
    tutti_tensor many = floats(&count);
    int how = 0;

    check_ok(tutti_store_open_hash(&store));
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_all_reduce(world, &many, TUTTI_SUM, 0, &work));
#ifdef __SANITIZE_THREAD__
    check_ok(tutti_work_wait(work, 0));
#endif
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();

        if (child == 0) {
            rank_search_no_leaks(); /* what threads hold that it has not looks like a leak */
            check_forked(world, work, store);
            if (i)
                rank_end(); /* exit(3) */
            rank_value("child", "done");
            _exit(0);
        }
        check_eq(waitpid(child, &how, 0), child);
        check(WIFEXITED(how) && !WEXITSTATUS(how));
    }
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    tutti_store_unref(store);
    for (int i = 0; i < LAPS; i++)
        check_ok(call(world, rank, size));
    check_ok(tutti_group_destroy(world));
}

/* Nothing of ours runs in the victim between its two calls: for a time, or until the test tells it.
 * Without a time the others wait for the test, too. */
RANK_CASE(one_computes)
{
    tutti_group *world = join();

    check_ok(call(world, rank, size));
    rank_point("open");
    if (!number_of("TUTTI_TEST_PAUSE_MS", 0))
        rank_await("go");
    else if (rank == victim())
        rank_sleep_ms(number_of("TUTTI_TEST_PAUSE_MS", 0));
    check_ok(call(world, rank, size));
    check_ok(tutti_group_destroy(world));
}

/* All leave at the same time, the victim a little later. */
RANK_CASE(leaves)
{
    tutti_group *world = join();

    check_ok(call(world, rank, size));
    rank_point("open");
    rank_await("go");
    if (rank == victim())
        rank_await("never");
    tutti_status status = tutti_group_destroy(world);
    rank_point("returned");
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", status ? tutti_last_error() : "");
}

/* A child of the victim lives on with all that it inherited. */
RANK_CASE(forks_and_calls_for_ever)
{
    tutti_group *world = join();

    check_ok(call(world, rank, size));
    if (rank == victim() && fork() == 0) {
        rank_sleep_ms(60000);
        _exit(0);
    }
    rank_point("forked");
    tutti_status status = TUTTI_OK;
    while (!status)
        status = call(world, rank, size);
    finish(world, status);
}

static void *abort_when_told(void *argument)
{
    rank_await("abort");
    rank_point("aborting");
    check_ok(tutti_group_abort(argument, "the tests want it"));
    return 0;
}

/* The victim ends the group. */
RANK_CASE(one_aborts)
{
    tutti_group *world = join();

    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    rank_await("go");
    if (rank == victim()) {
        rank_point("aborting");
        check_ok(tutti_group_abort(world, "the tests want it"));
        rank_point("aborted");
    }
    finish(world, call(world, rank, size));
}

/* The victim's input is one element many times, of which no memory holds a copy. */
RANK_CASE(one_lacks_memory)
{
    const int64_t one = 1, none = 0, huge = (int64_t)(NO_MEMORY_BYTES / sizeof(float) / 4);
    const bool in_batch = number_of("TUTTI_TEST_BATCH", 0);
    tutti_group *world = join();
    int64_t all = size;
    tutti_tensor in = {.data = memory,
                       .device = {TUTTI_DEVICE_CPU, 0},
                       .ndim = 1,
                       .dtype = TUTTI_F32,
                       .shape = rank == victim() ? &huge : &one,
                       .strides = rank == victim() ? &none : NULL};
    tutti_tensor out = floats(&all);

    out.data = memory + 1;
    check_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    rank_await("go");
    if (rank == victim())
        rank_point("lacking");
    if (in_batch)
        require_ok(tutti_batch_begin(world));
    tutti_status status = tutti_all_gather(world, &in, &out, options(), 0);
    if (rank == victim()) {
        check_status(status, TUTTI_ERR_NO_MEMORY);
        check_contains(tutti_last_error(), "all_gather: ");
        rank_sleep_ms(number_of("TUTTI_TEST_STAY_MS", 0)); /* without a look at the group */
    }
    if (in_batch)
        check_eq(tutti_batch_end(world, 0), TUTTI_ERR_NO_MEMORY);
    finish(world, status && rank != victim() ? status : tutti_barrier(world, 0, 0));
}

/* Another thread of the victim ends what all wait for. */
RANK_CASE(aborts_from_another_thread)
{
    tutti_group *world = join();
    pthread_t thread;

    check_ok(tutti_barrier(world, 0, 0));
    if (rank == victim())
        check_eq(pthread_create(&thread, 0, abort_when_told, world), 0);
    rank_point("open");
    if (rank == size - 1 && rank != victim() && !number_of("TUTTI_TEST_ALL_CALL", 0))
        rank_await("go"); /* the one that all wait for */
    tutti_status status = TUTTI_OK;
    while (!status)
        status = call(world, rank, size);
    if (rank == victim())
        pthread_join(thread, 0);
    finish(world, status);
}
