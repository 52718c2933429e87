/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is stopped answers no more, but lives: only the deadline of the call ends it, and
 * names it. When it goes on it finds the verdict of the others. test_stopped_init.c stops processes
 * while a group is made.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum {
    RANKS = 5,
    MIDDLE = 2,
    VERDICT_MS = 200,    /* a better cause is waited for */
    ANSWERS_MS = 100,    /* of these are for members that wait themselves to say so */
    MPI_WAITS_MS = 1000, /* ranks of MPI do not sleep, and take CPUs from one another */
    PASS_OVER_MS = 500   /* the rank that should fix the verdict does not answer */
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

/* Members that get no CPU for their answer end the words that lead to the rank that all wait for. What is
 * withheld counts from the middle of the first deadline on: they have waited for long, and none has timed out. */
static int64_t amid_the_wait(struct ranks *ranks)
{
    usleep((useconds_t)deadline_ms() * 500);
    return ranks_note_delays(ranks);
}

static int may_be_withheld_ms(const struct fault_way *way)
{
    return way->mpi ? MPI_WAITS_MS : ANSWERS_MS;
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
    const struct fault_expected expected = {
        .size = RANKS,
        .gone = 1u << victim,
        .status = "TUTTI_ERR_TIMEOUT",
        .parts = {after, "waiting for "},
        .from_ns = stopped,
        .parts_in_time = {named},
        .in_time_ns = amid_the_wait(ranks),
        .in_time_ms = may_be_withheld_ms(way),
        .budget_ms = deadline_ms() + VERDICT_MS + (victim ? 0 : PASS_OVER_MS) + FAULT_BUDGET_MS};
    fault_expect(ranks, &expected);
    fault_expect_of_stopped(ranks, victim, &expected);
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

/* It runs, and stays outside of tutti: a local peer's memory tells that for sure, messages do not. */
FAULT_TEST_WITH_ENGINES(stopped, a_rank_that_has_not_called_is_told_from_a_slow_one)
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
    struct ranks *ranks = fault_start(
        way, "rank_fault", "one_waits_elsewhere", RANKS,
        (const char *[]){"TUTTI_TEST_CALL=barrier", "TUTTI_TEST_VICTIM=2", deadline_is(), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    fault_expect(
        ranks, &(struct fault_expected){.size = RANKS,
                                        .status = "TUTTI_ERR_TIMEOUT",
                                        .parts = {"waiting for "},
                                        .in_time_ns = amid_the_wait(ranks),
                                        .parts_in_time = {"waiting for rank 2 (",
                                                          "has not called it: its last call is #1"},
                                        .in_time_ms = may_be_withheld_ms(way)});
    fault_finish(ranks);
}

/* The first deadline is that of a rank that waits for one which waits itself, until later. */
FAULT_TEST_EVERYWHERE(stopped, the_first_deadline_names_the_rank_that_all_wait_for)
{
    for (int early = 0; early < 2; early++) {
        char who[32];

        snprintf(who, sizeof who, "TUTTI_TEST_EARLY=%d", early);
        struct ranks *ranks =
            fault_start(way, "rank_fault", "one_stays_away_and_one_is_early", RANKS,
                        (const char *[]){"TUTTI_TEST_CALL=large", "TUTTI_TEST_VICTIM=2", who,
                                         deadline_is(), NULL});

        cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
        fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                     .gone = 1u << MIDDLE,
                                                     .status = "TUTTI_ERR_TIMEOUT",
                                                     .parts_in_time = {"rank 2 ("},
                                                     .in_time_ns = amid_the_wait(ranks),
                                                     .in_time_ms = may_be_withheld_ms(way)});
        ranks_signal(ranks, MIDDLE, SIGKILL);
        cr_assert(ranks_wait_rank(ranks, MIDDLE));
        fault_finish(ranks);
    }
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
    const int init_ms = ranks_have_instruments() ? 6000 : 1500;
    char who[32], named[32], within[48];

    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    snprintf(within, sizeof within, "TUTTI_TEST_TIMEOUT_MS=%d", init_ms);
    struct ranks *ranks = fault_start(way, "rank_fault", "one_never_joins", RANKS,
                                      (const char *[]){who, within, FAULT_TOGETHER, NULL});

    fault_join_together(ranks);
    snprintf(named, sizeof named, "rank %d", victim);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"group world", named},
                                                 .from_ns = fault_now_ns(),
                                                 .budget_ms = init_ms + FAULT_BUDGET_MS});
    ranks_signal(ranks, victim, SIGKILL);
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(stopped, who_never_joins_is_named)
{
    stay_away(way, MIDDLE);
}
FAULT_TEST_WITH_GPUS(stopped, who_never_joins_is_named)

FAULT_TEST_WITH_ENGINES(stopped, rank_0_that_never_joins_is_named)
{
    stay_away(way, 0);
}
FAULT_TEST_WITH_GPUS(stopped, rank_0_that_never_joins_is_named)

/* ---- an abort -------------------------------------------------------------------------------- */

/* The rank that would fix the verdict cannot. It gets less time than in any other case. */
FAULT_TEST_WITH_ENGINES(stopped, rank_0_holds_no_abort_up)
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
