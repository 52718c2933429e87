/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that call different things get the same error within 100 ms of the later call, with a
 * message that names both sides: in this call or, on a rank that had returned, in the barrier after
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum {
    RANKS = 4,
    OTHER = 2,
    ALL = 8,
    SOON_MS = 100,
    SIDES_MS = 200, /* in which all tell what they called */
    RUNS = 3,
    RUNS_S = 7200
};

static void expect_mismatch(const struct fault_way *way, int victim, const char *call,
                            const char *other)
{
    char one[128], two[128], who[32], side[128];
    int64_t later = 0;

    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    snprintf(one, sizeof one, "TUTTI_TEST_CALL=%s", call);
    snprintf(two, sizeof two, "TUTTI_TEST_OTHER=%s", other);
    struct ranks *ranks = fault_start(way, "rank_mismatch", "one_calls_something_else", RANKS,
                                      (const char *[]){who, one, two, NULL});

    fprintf(stderr, "%s, rank %d: %s\n", call, victim, other);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "calling"));
    snprintf(side, sizeof side, "rank %d: %s", victim, other);
    for (int r = 0; r < RANKS; r++) /* the victim's, unless another rank was held back */
        if (ranks_point_ns(ranks, r, "calling") > later)
            later = ranks_point_ns(ranks, r, "calling");
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .status = "TUTTI_ERR_MISMATCH",
                                                 .parts = {side, call, "group world", "as #2"},
                                                 .from_ns = later,
                                                 .budget_ms = SOON_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(mismatch, in_dtype)
{
    expect_mismatch(way, OTHER, "all_reduce 8 x f32, sum", "all_reduce 8 x i32, sum");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_dtype_of_another_size)
{
    expect_mismatch(way, OTHER, "all_reduce 8 x f32, sum", "all_reduce 8 x f16, sum");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_op)
{
    expect_mismatch(way, OTHER, "all_reduce 8 x f32, sum", "all_reduce 8 x f32, max");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_op_of_large_tensors)
{
    expect_mismatch(way, OTHER, "all_reduce 1000000 x f32, sum", "all_reduce 1000000 x f32, avg");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_count)
{
    expect_mismatch(way, OTHER, "all_reduce 4 x f32, sum", "all_reduce 8 x f32, sum");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_8_bytes_and_4_mebibytes)
{
    expect_mismatch(way, OTHER, "all_reduce 2 x f32, sum", "all_reduce 1048576 x f32, sum");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_4_mebibytes_and_8_bytes)
{
    expect_mismatch(way, 0, "all_reduce 1048576 x f32, sum", "all_reduce 2 x f32, sum");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_count_of_broadcasts)
{
    expect_mismatch(way, OTHER, "broadcast 2 x f32, root 0", "broadcast 1000000 x f32, root 0");
}

FAULT_TEST_WITH_ENGINES(mismatch, in_operation)
{
    expect_mismatch(way, OTHER, "all_reduce 8 x f32, sum", "broadcast 8 x f32, root 0");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_broadcast_and_barrier)
{
    expect_mismatch(way, OTHER, "broadcast 8 x f32, root 0", "barrier");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_barrier_and_a_large_broadcast_by_rank_0)
{
    expect_mismatch(way, 0, "barrier", "broadcast 1000000 x f32, root 0");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_root_0_and_root_1)
{
    expect_mismatch(way, 1, "broadcast 8 x f32, root 0", "broadcast 8 x f32, root 1");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_root_0_and_root_1_with_large_tensors)
{
    expect_mismatch(way, 1, "broadcast 1000000 x f32, root 0", "broadcast 1000000 x f32, root 1");
}

FAULT_TEST_WITH_ENGINES(mismatch, of_root_0_and_root_1_seen_by_a_third)
{
    expect_mismatch(way, OTHER, "broadcast 8 x f32, root 0", "broadcast 8 x f32, root 1");
}

/* By messages everybody waits: the root for the others, and they for the root. */
FAULT_TEST_WITH_ENGINES(mismatch, of_a_root_that_reduces_and_members_that_broadcast)
{
    expect_mismatch(way, 0, "broadcast 8 x f32, root 0", "reduce 8 x f32, sum, root 0");
    expect_mismatch(way, 0, "broadcast 1000000 x f32, root 0", "reduce 1000000 x f32, sum, root 0");
}

/* Which is an all_reduce of 8 x i32, sum, inside. */
FAULT_TEST_WITH_ENGINES(mismatch, of_a_split_and_an_all_reduce_of_its_shape)
{
    expect_mismatch(way, OTHER, "group_split", "all_reduce 8 x i32, sum");
}

/* Ranks 0-3 and 5 mean root 0. A rank that only sends has returned before it can know. */
static void differ_at_the_end(const struct fault_way *way, const char *count, int runs)
{
    char sets[160];

    snprintf(sets, sizeof sets,
             "members called different things as #2: ranks 0-3 and 5: broadcast %s x f32, root 0; "
             "ranks 4, 6 and 7: broadcast %s x f32, root 1",
             count + strlen("TUTTI_TEST_COUNT="), count + strlen("TUTTI_TEST_COUNT="));
    for (int i = 0; i < runs; i++) {
        struct ranks *ranks =
            fault_start(way, "rank_mismatch", "last_broadcasts_differ", ALL,
                        (const char *[]){"TUTTI_TEST_ROOTS=00001011", count, NULL});

        cr_assert(ranks_reach(ranks, RANKS_ALL, "calling"));
        int64_t first = ranks_point_ns(ranks, 0, "calling");
        for (int r = 1; r < ALL; r++)
            if (ranks_point_ns(ranks, r, "calling") < first)
                first = ranks_point_ns(ranks, r, "calling");
        fault_expect(ranks, &(struct fault_expected){.size = ALL,
                                                     .status = "TUTTI_ERR_MISMATCH",
                                                     .parts = {"as #2", "group world"},
                                                     .parts_in_time = {sets},
                                                     .in_time_ns = first,
                                                     .in_time_ms = SIDES_MS});
        fault_finish(ranks);
    }
}

FAULT_TEST_WITH_ENGINES(mismatch, of_roots_in_the_last_call_is_told_to_all_with_the_sets)
{
    differ_at_the_end(way, "TUTTI_TEST_COUNT=8", RUNS);
    differ_at_the_end(way, "TUTTI_TEST_COUNT=1000000", 1);
}

Test(mismatch, of_roots_in_the_last_call_is_told_every_time, .timeout = RUNS_S)
{
    static const struct fault_way *const ways[] = {&fault_shm, &fault_tcp, &fault_composed};
    const char *runs = getenv("TUTTI_TEST_RUNS");

    if (!runs)
        cr_skip_test("TUTTI_TEST_RUNS is not set");
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        differ_at_the_end(ways[w], "TUTTI_TEST_COUNT=8", atoi(runs));
}

FAULT_TEST_WITH_ENGINES(mismatch, members_that_differ_in_local_facts_succeed)
{
    struct ranks *ranks =
        fault_start(way, "rank_mismatch", "members_differ_in_local_facts", RANKS, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

Test(mismatch, of_backends_fails_init_on_all, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks =
        fault_start(&fault_tcp, "rank_mismatch", "one_asks_for_another_backend", RANKS,
                    (const char *[]){"TUTTI_TEST_VICTIM=2", "TUTTI_TEST_OTHER=shm", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "calling"));
    fault_expect(ranks, &(struct fault_expected){
                            .size = RANKS,
                            .status = "TUTTI_ERR_MISMATCH",
                            .parts = {"rank 0: «tcp»", "rank 2: «shm»", "TUTTI_BACKEND"},
                            .from_ns = fault_now_ns(),
                            .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}
