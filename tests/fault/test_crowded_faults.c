/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More ranks on a host than CPUs, which reduce in rounds: a rank that dies,
 * stops or calls something else is named by all others, wherever in a round it was.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum { CROWD = 8, CALL_MS = 3000, ANSWERS_MS = 100, VERDICT_MS = 1000, SOON_MS = 500 };

static struct ranks *start(const char *program, const char *case_name, const char *const *env)
{
    ranks_limit_cpus(CROWD - 1);
    return fault_start(&fault_shm, program, case_name, CROWD, env);
}

/* The calls of rank_fault.c; "scatter": those of rank_scatter.c. */
static struct ranks *start_calls(const char *call, int victim)
{
    const bool scatters = !strcmp(call, "scatter");
    char call_is[64], who[64], call_ms[64];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    snprintf(call_ms, sizeof call_ms, "TUTTI_TEST_CALL_MS=%d", CALL_MS);
    return start(scatters ? "rank_scatter" : "rank_fault",
                 scatters ? "scatters_for_ever" : "calls_for_ever",
                 (const char *[]){call_is, who, call_ms, NULL});
}

static void kill_one(const char *call, int victim)
{
    struct ranks *ranks = start_calls(call, victim);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, CROWD, victim, ranks_signal(ranks, victim, SIGKILL));
}

Test(crowded, a_rank_is_killed_in_barriers, .timeout = FAULT_TEST_S)
{
    kill_one("barrier", 3);
}

Test(crowded, a_rank_is_killed_in_small_all_reduces, .timeout = FAULT_TEST_S)
{
    kill_one("small", 7);
}

Test(crowded, rank_0_is_killed_in_all_reduces_of_32_kilobytes, .timeout = FAULT_TEST_S)
{
    kill_one("medium", 0);
}

Test(crowded, a_rank_is_killed_in_scatters_of_long_blocks, .timeout = FAULT_TEST_S)
{
    kill_one("scatter", 3);
}

Test(crowded, a_root_is_killed_while_others_read_its_memory, .timeout = FAULT_TEST_S)
{
    kill_one("scatter", CROWD - 1);
}

/* A rank that gets no CPU for its answer may leave another one named: as in test_stopped.c. */
static int64_t amid_the_wait(struct ranks *ranks)
{
    usleep(CALL_MS * 500);
    return ranks_note_delays(ranks);
}

static void stop_one(const char *call, int victim)
{
    char named[64];
    struct ranks *ranks = start_calls(call, victim);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t stopped = ranks_signal(ranks, victim, SIGSTOP);
    snprintf(named, sizeof named, "waiting for rank %d (", victim);
    const struct fault_expected expected = {.size = CROWD,
                                            .gone = 1u << victim,
                                            .status = "TUTTI_ERR_TIMEOUT",
                                            .parts = {"waiting for "},
                                            .from_ns = stopped,
                                            .parts_in_time = {named},
                                            .in_time_ns = amid_the_wait(ranks),
                                            .in_time_ms = ANSWERS_MS,
                                            .budget_ms = CALL_MS + VERDICT_MS + FAULT_BUDGET_MS};
    fault_expect(ranks, &expected);
    fault_expect_of_stopped(ranks, victim, &expected);
}

Test(crowded, a_rank_is_stopped_in_barriers, .timeout = FAULT_TEST_S)
{
    stop_one("barrier", 3);
}

Test(crowded, a_rank_is_stopped_in_small_all_reduces, .timeout = FAULT_TEST_S)
{
    stop_one("small", 6);
}

Test(crowded, a_rank_is_stopped_in_all_reduces_of_32_kilobytes, .timeout = FAULT_TEST_S)
{
    stop_one("medium", 2);
}

/* The root has its memory back before the rank that is stopped reads it. */
Test(crowded, a_rank_is_stopped_in_scatters_of_long_blocks, .timeout = FAULT_TEST_S)
{
    stop_one("scatter", 3);
}

static void expect_mismatch(const char *call, const char *other)
{
    enum { OTHER = 4 };
    char one[128], two[128], side[128];
    int64_t later = 0;

    snprintf(one, sizeof one, "TUTTI_TEST_CALL=%s", call);
    snprintf(two, sizeof two, "TUTTI_TEST_OTHER=%s", other);
    struct ranks *ranks = start("rank_mismatch", "one_calls_something_else",
                                (const char *[]){"TUTTI_TEST_VICTIM=4", one, two, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "calling"));
    snprintf(side, sizeof side, "rank %d: %s", OTHER, other);
    for (int r = 0; r < CROWD; r++)
        if (ranks_point_ns(ranks, r, "calling") > later)
            later = ranks_point_ns(ranks, r, "calling");
    fault_expect(ranks, &(struct fault_expected){.size = CROWD,
                                                 .status = "TUTTI_ERR_MISMATCH",
                                                 .parts = {side, call, "group world"},
                                                 .from_ns = later,
                                                 .budget_ms = SOON_MS});
    fault_finish(ranks);
}

Test(crowded, a_rank_sums_with_another_op, .timeout = FAULT_TEST_S)
{
    expect_mismatch("all_reduce 8 x f32, sum", "all_reduce 8 x f32, max");
}

Test(crowded, a_rank_sums_a_longer_vector_in_rounds, .timeout = FAULT_TEST_S)
{
    expect_mismatch("all_reduce 8000 x f32, sum", "all_reduce 8100 x f32, sum");
}

Test(crowded, a_rank_sums_more_than_a_line_holds, .timeout = FAULT_TEST_S)
{
    expect_mismatch("all_reduce 8 x f32, sum", "all_reduce 8000 x f32, sum");
}

Test(crowded, a_rank_is_in_a_barrier, .timeout = FAULT_TEST_S)
{
    expect_mismatch("all_reduce 8000 x f32, sum", "barrier");
}

Test(crowded, a_rank_is_in_an_operation_without_rounds, .timeout = FAULT_TEST_S)
{
    expect_mismatch("all_reduce 8 x f32, sum", "broadcast 8 x f32, root 0");
}
