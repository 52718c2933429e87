/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is stopped answers no more, but lives: only the deadline of the call ends it, and
 * names it. When it goes on it finds the verdict of the others. The same holds for the making of a
 * group, and for the process that serves the store.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "fault.h"
#include "harness/port.h"

enum {
    RANKS = 5,
    MIDDLE = 2,
    VERDICT_MS = 200,  /* a better cause is waited for */
    PASS_OVER_MS = 500 /* who should fix the verdict does not answer */
};

/* Of a call: also those before somebody is stopped must end within it. */
static int deadline_ms(void)
{
    return ranks_have_instruments() ? 3000 : 1000;
}

static const char *deadline_is(void)
{
    static char variable[32];

    snprintf(variable, sizeof variable, "TUTTI_TEST_CALL_MS=%d", deadline_ms());
    return variable;
}

static void stop(const struct fault_way *way, const char *call, int victim)
{
    char call_is[32], who[32], named[32], after[32];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    struct ranks *ranks = fault_start(way, "rank_fault", "calls_for_ever", RANKS,
                                      (const char *[]){call_is, who, deadline_is(), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t stopped = ranks_signal(ranks, victim, SIGSTOP);
    snprintf(named, sizeof named, "waiting for rank %d (", victim);
    snprintf(after, sizeof after, "timed out after %d ms", deadline_ms());
    struct fault_expected expected = {.size = RANKS,
                                      .gone = 1u << victim,
                                      .status = "TUTTI_ERR_TIMEOUT",
                                      .parts = {after, named},
                                      .from_ns = stopped,
                                      .budget_ms = deadline_ms() + VERDICT_MS +
                                                   (victim ? 0 : PASS_OVER_MS) + FAULT_BUDGET_MS};
    fault_expect(ranks, &expected);

    ranks_signal(ranks, victim, SIGCONT);
    expected.gone = 0;
    expected.budget_ms = 0;
    fault_expect(ranks, &expected);
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(stopped, in_barriers)
{
    stop(way, "barrier", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(stopped, in_small_all_reduces)
{
    stop(way, "small", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(stopped, in_large_all_reduces)
{
    stop(way, "large", MIDDLE);
}

/* It runs, and stays outside of tutti: a mate's memory tells that for sure, messages do not. */
FAULT_TEST_WITH_ENGINES(stopped, who_has_not_called_is_told_from_who_is_slow_in_a_call)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_stays_away", 2,
                    (const char *[]){"TUTTI_TEST_CALL=large", "TUTTI_TEST_VICTIM=1",
                                     "TUTTI_TEST_CALL_MS=1000", NULL});
    const char *known =
        way == &fault_tcp ? "has not called it, or does not answer" : "has not called";

    fault_expect(ranks, &(struct fault_expected){.size = 2,
                                                 .gone = 1u << 1,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"waiting for rank 1 (", known}});
    ranks_signal(ranks, 1, SIGKILL);
    cr_assert(ranks_wait_rank(ranks, 1));
    fault_finish(ranks);
}

/* It looks at tutti, so it can be asked. */
FAULT_TEST_EVERYWHERE(stopped, who_waits_elsewhere_says_how_far_it_has_called)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_waits_elsewhere", RANKS,
                    (const char *[]){"TUTTI_TEST_CALL=barrier", "TUTTI_TEST_VICTIM=2",
                                     "TUTTI_TEST_CALL_MS=1000", NULL});

    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"waiting for rank 2 (",
                                                           "it has not called it: its last call "
                                                           "is #1"}});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(stopped, only_a_receive_ends_and_the_group_goes_on)
{
    struct ranks *ranks = fault_start(
        way, "rank_fault", "receives_time_out", RANKS,
        (const char *[]){"TUTTI_TEST_CALL=message", "TUTTI_TEST_VICTIM=2", deadline_is(), NULL});
    char status[64], words[1024];

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    int64_t stopped = ranks_signal(ranks, MIDDLE, SIGSTOP);
    for (int r = 0; r < RANKS; r++) {
        if (r == MIDDLE)
            continue;
        cr_assert(ranks_reach(ranks, r, "returned"));
        cr_expect(fault_within(ranks, r, stopped, deadline_ms() + FAULT_BUDGET_MS));
    }
    ranks_signal(ranks, MIDDLE, SIGCONT);
    ranks_tell(ranks, MIDDLE, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < RANKS; r++) {
        if (r == MIDDLE)
            continue;
        cr_expect(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        cr_expect_str_eq(status, "TUTTI_ERR_TIMEOUT");
        cr_expect_not_null(strstr(words, "waiting for rank 2 ("), "%s", words);
    }
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(stopped, rank_0_in_small_all_reduces)
{
    stop(way, "small", 0);
}

FAULT_TEST_WITH_ENGINES(stopped, rank_0_in_large_all_reduces)
{
    stop(way, "large", 0);
}

static void stay_away(const struct fault_way *way, int victim)
{
    char who[32], named[32];

    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    struct ranks *ranks = fault_start(way, "rank_fault", "one_never_joins", RANKS,
                                      (const char *[]){who, "TUTTI_TEST_TIMEOUT_MS=1500", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "here"));
    snprintf(named, sizeof named, "rank %d", victim);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"group world", named},
                                                 .from_ns = fault_now_ns(),
                                                 .budget_ms = 1500 + FAULT_BUDGET_MS});
    ranks_signal(ranks, victim, SIGKILL);
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(stopped, who_never_joins_is_named)
{
    stay_away(way, MIDDLE);
}

FAULT_TEST_WITH_ENGINES(stopped, rank_0_that_never_joins_is_named)
{
    stay_away(way, 0);
}

/* ---- while a group is made ------------------------------------------------------------------- */

static struct ranks *begin_init(const struct fault_way *way, const char *url, int timeout_ms,
                                bool served_elsewhere)
{
    char late[32], within[48], where[96];

    snprintf(late, sizeof late, "TUTTI_TEST_LATE=%d", RANKS - 1);
    snprintf(within, sizeof within, "TUTTI_TEST_TIMEOUT_MS=%d", timeout_ms);
    snprintf(where, sizeof where, "TUTTI_TEST_URL=%s", url ? url : "");
    return fault_start(way, "rank_fault", "in_init", RANKS,
                       (const char *[]){late, within, "TUTTI_TEST_CALL_MS=20000",
                                        url ? where : NULL,
                                        served_elsewhere ? "TUTTI_STORE_HOST=0" : NULL, NULL});
}

/* All but the last one have said in the store that they are there. */
static void await_all_but_the_last(struct ranks *ranks, uint16_t port)
{
    char name[32];

    for (int r = 0; r < RANKS - 1; r++) {
        snprintf(name, sizeof name, "offer/%d", r);
        fault_await_key(ranks, port, name);
    }
}

static int init_ms(void)
{
    return ranks_have_instruments() ? 8000 : 2500;
}

/* Everybody says so, and of nobody else. */
static void expect_no_answer_from(struct ranks *ranks, int victim, int64_t from_ns)
{
    char named[48], words[1024];

    snprintf(named, sizeof named, ": no answer from rank %d", victim);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"group world", named},
                                                 .from_ns = from_ns,
                                                 .budget_ms = init_ms() + FAULT_BUDGET_MS});
    cr_assert(ranks_value(ranks, victim == 1 ? 0 : 1, "words", words, sizeof words));
    const char *at = strstr(words, named);
    cr_expect(at && !at[strlen(named)], "«%s» names others too", words);
    ranks_signal(ranks, victim, SIGKILL);
    fault_finish(ranks);
}

/* It has made its offer, so the others count on it. */
static void stop_in_init(const struct fault_way *way, const char *url, uint16_t port)
{
    struct ranks *ranks = begin_init(way, url, init_ms(), false);

    await_all_but_the_last(ranks, port);
    ranks_signal(ranks, MIDDLE, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    expect_no_answer_from(ranks, MIDDLE, ranks_point_ns(ranks, RANKS - 1, "in_init"));
}

FAULT_TEST(stopped, in_init_is_named_alone)
{
    stop_in_init(way, NULL, 0);
}

/* Its connection to the store holds nobody up. */
FAULT_TEST(stopped, in_init_is_named_in_time_by_rank_0_that_serves_the_store)
{
    const uint16_t port = port_reserve();
    char url[64];

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    stop_in_init(way, url, port);
}

FAULT_TEST(stopped, rank_0_in_init_before_its_decision_is_named)
{
    struct ranks *ranks = begin_init(way, NULL, init_ms(), false);

    await_all_but_the_last(ranks, 0);
    ranks_signal(ranks, 0, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u,
                                          .status = "TUTTI_ERR_TIMEOUT",
                                          .parts = {"timed out waiting for rank 0 to decide"}});
    ranks_signal(ranks, 0, SIGKILL);
    fault_finish(ranks);
}

/* Another one holds the init up until rank 0 is stopped. */
FAULT_TEST(stopped, rank_0_in_init_after_its_decision_is_named)
{
    struct ranks *ranks = begin_init(way, NULL, init_ms(), false);

    await_all_but_the_last(ranks, 0);
    ranks_signal(ranks, MIDDLE, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    fault_await_key(ranks, 0, "decision/1");
    ranks_signal(ranks, 0, SIGSTOP);
    ranks_signal(ranks, MIDDLE, SIGCONT);
    expect_no_answer_from(ranks, 0, ranks_point_ns(ranks, RANKS - 1, "in_init"));
}

/* Longer than any patience but the deadline's was once. */
enum { SILENT_INIT_MS = 3000, SILENT_GROUP_MS = 6000 };

/* The init that was held up comes about, and the group works. */
static void expect_open(struct ranks *ranks)
{
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"), "%s", ranks_result(ranks, 1)->err);
    fault_expect_lost(ranks, RANKS, MIDDLE, ranks_signal(ranks, MIDDLE, SIGKILL));
}

FAULT_TEST(stopped, rank_0_that_serves_the_store_in_init_and_goes_on_changes_nothing)
{
    const uint16_t port = port_reserve();
    char url[64];

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    struct ranks *ranks = begin_init(way, url, 60000, false);
    await_all_but_the_last(ranks, port);
    ranks_signal(ranks, 0, SIGSTOP);
    usleep(SILENT_INIT_MS * 1000);
    ranks_signal(ranks, 0, SIGCONT);
    expect_open(ranks);
}

/* A process that does nothing else, as the launcher's. */
static pid_t serve_elsewhere(uint16_t *ret_port)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (!pid) {
        tutti_store_server *server;

        if (tutti_store_server_start("127.0.0.1", 0, &server))
            _exit(1);
        *ret_port = tutti_store_server_port(server);
        if (write(ends[1], ret_port, sizeof *ret_port) != sizeof *ret_port)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], ret_port, sizeof *ret_port), sizeof *ret_port);
    close(ends[0]);
    return pid;
}

/* All but the last one are in init when the process that serves the store is stopped. */
static struct ranks *begin_and_stop_the_store(const struct fault_way *way, pid_t *ret_server)
{
    uint16_t port;
    char url[64];

    *ret_server = serve_elsewhere(&port);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    struct ranks *ranks = begin_init(way, url, 60000, true);
    await_all_but_the_last(ranks, port);
    kill(*ret_server, SIGSTOP);
    return ranks;
}

FAULT_TEST(stopped, a_store_in_init_that_goes_on_changes_nothing)
{
    pid_t server;
    struct ranks *ranks = begin_and_stop_the_store(way, &server);

    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    usleep(SILENT_INIT_MS * 1000);
    kill(server, SIGCONT);
    expect_open(ranks);
    kill(server, SIGKILL);
    cr_expect_eq(waitpid(server, NULL, 0), server);
}

/* It is gone, not slow: nobody waits for the deadline. */
FAULT_TEST(stopped, a_store_in_init_that_ends_is_told_at_once)
{
    pid_t server;
    struct ranks *ranks = begin_and_stop_the_store(way, &server);

    usleep(SILENT_INIT_MS * 1000);
    int64_t ended = fault_now_ns();
    kill(server, SIGKILL);
    cr_expect_eq(waitpid(server, NULL, 0), server);
    for (int r = 0; r < RANKS - 1; r++) {
        char status[64];

        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(ranks_value(ranks, r, "status", status, sizeof status));
        cr_expect_str_eq(status, "TUTTI_ERR_STORE");
        cr_expect(fault_within(ranks, r, ended, FAULT_BUDGET_MS));
    }
    ranks_signal(ranks, RANKS - 1, SIGKILL);
    fault_finish(ranks);
}

/* No more than that group is late, and the next one is not. */
FAULT_TEST(stopped, rank_0_that_serves_the_store_delays_new_groups_and_ends_none)
{
    char url[80];

    snprintf(url, sizeof url, "TUTTI_TEST_URL=tcp://127.0.0.1:%u", port_reserve());
    struct ranks *ranks = fault_start(way, "rank_group", "others_make_groups", RANKS,
                                      (const char *[]){"TUTTI_TEST_VICTIM=0", url, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_signal(ranks, 0, SIGSTOP);
    for (int r = 1; r < RANKS; r++)
        ranks_tell(ranks, r, "go");
    for (int r = 1; r < RANKS; r++)
        cr_assert(ranks_reach(ranks, r, "making"));
    usleep(SILENT_GROUP_MS * 1000);
    ranks_signal(ranks, 0, SIGCONT);
    ranks_tell(ranks, 0, "go");
    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < RANKS; r++)
        cr_expect(ranks_result(ranks, r)->passed, "rank %d: %s%s", r, ranks_result(ranks, r)->out,
                  ranks_result(ranks, r)->err);
    fault_finish(ranks);
}

/* ---- an abort -------------------------------------------------------------------------------- */

/* Who would fix the verdict cannot. Less than the patience with it in any other case. */
FAULT_TEST(stopped, rank_0_holds_no_abort_up)
{
    enum { ABORT_MS = 100, SLACK_MS = 100 };
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_aborts", RANKS,
                    (const char *[]){"TUTTI_TEST_CALL=barrier", "TUTTI_TEST_VICTIM=2", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_signal(ranks, 0, SIGSTOP);
    for (int r = 1; r < RANKS; r++)
        if (r != MIDDLE)
            ranks_tell(ranks, r, "go");
    usleep(200000); /* they sleep by then */
    ranks_tell(ranks, MIDDLE, "go");
    cr_assert(ranks_reach(ranks, MIDDLE, "aborting"));
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u,
                                          .status = "TUTTI_ERR_ABORTED",
                                          .parts = {"aborted by rank 2: the tests want it"},
                                          .from_ns = ranks_point_ns(ranks, MIDDLE, "aborting"),
                                          .budget_ms = ABORT_MS + SLACK_MS});
    ranks_signal(ranks, 0, SIGKILL);
    fault_finish(ranks);
}
