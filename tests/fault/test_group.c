/* SPDX-License-Identifier: Apache-2.0 */
/* Something goes wrong while a group is made from the world. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum { RANKS = 5, MIDDLE = 2, DESTROYED_MS = 16 * 50 / 2 };

static const char *victim_is(int rank)
{
    static char variable[32];

    snprintf(variable, sizeof variable, "TUTTI_TEST_VICTIM=%d", rank);
    return variable;
}

/* Before it has called: only the world can know. */
static void kill_before(const struct fault_way *way, int victim)
{
    struct ranks *ranks = fault_start(way, "rank_group", "one_does_not_come", RANKS,
                                      (const char *[]){victim_is(victim), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    usleep(100000);
    fault_expect_lost(ranks, RANKS, victim, ranks_signal(ranks, victim, SIGKILL));
}

FAULT_TEST_WITH_ENGINES(group, is_not_made_when_a_member_dies_before_it_comes)
{
    kill_before(way, MIDDLE);
}

FAULT_TEST_WITH_ENGINES(group, is_not_made_when_its_leader_dies_before_it_comes)
{
    kill_before(way, RANKS - 1);
}

FAULT_TEST_WITH_ENGINES(group, lives_on_when_a_process_outside_of_it_dies)
{
    struct ranks *ranks = fault_start(way, "rank_group", "others_live_on", RANKS,
                                      (const char *[]){victim_is(MIDDLE), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    fault_expect_lost(ranks, RANKS, MIDDLE, ranks_signal(ranks, MIDDLE, SIGKILL));
}

/* From the call on, until all call on the group. The group's words if it was made, else the
 * world's; the same on all. */
static void kill_at(const struct fault_way *way, int victim, int after_us)
{
    struct ranks *ranks = fault_start(way, "rank_group", "all_come", RANKS,
                                      (const char *[]){"TUTTI_TEST_LATE=1", NULL});

    for (int r = 0; r < RANKS; r++)
        cr_assert(r == 1 || ranks_reach(ranks, r, "open"));
    ranks_tell(ranks, 1, "go");
    usleep((useconds_t)after_us);
    int64_t killed = ranks_signal(ranks, victim, SIGKILL);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"was lost"},
                                                 .from_ns = killed,
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(group, ends_in_one_way_when_a_member_dies_at_any_moment)
{
    for (int after_us = 500; after_us < 40000; after_us *= 3)
        kill_at(way, MIDDLE, after_us);
}

FAULT_TEST_WITH_ENGINES(group, ends_in_one_way_when_its_leader_dies_at_any_moment)
{
    for (int after_us = 500; after_us < 40000; after_us *= 3)
        kill_at(way, RANKS - 1, after_us);
}

/* All its groups tell at once, and together they keep it for as long as one. */
FAULT_TEST_WITH_ENGINES(group, of_a_member_that_exits_names_it)
{
    struct ranks *ranks =
        fault_start(way, "rank_group", "one_exits", 3, (const char *[]){victim_is(1), NULL});

    cr_assert(ranks_reach(ranks, 0, "open"));
    cr_assert(ranks_reach(ranks, 2, "open"));
    usleep(100000);
    int64_t from = fault_now_ns();
    ranks_tell(ranks, 1, "go");
    fault_expect(ranks, &(struct fault_expected){.size = 3,
                                                 .gone = 1u << 1,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"group world: rank 1 (", "it exited"},
                                                 .from_ns = from,
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

static void expect_timeout(struct ranks *ranks, int size, int victim, const char *who)
{
    fault_expect(ranks, &(struct fault_expected){.size = size,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"group world{", "missing: ", who},
                                                 .from_ns = fault_now_ns()});
}

/* The leader's deadline, which is the first: the others have called before. */
Test(group, names_the_missing_ranks_at_the_deadline, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks =
        fault_start(&fault_tcp, "rank_group", "one_does_not_come", RANKS,
                    (const char *[]){victim_is(MIDDLE), "TUTTI_TEST_LATE=4",
                                     ranks_have_instruments() ? "TUTTI_TEST_TIMEOUT_MS=3000"
                                                              : "TUTTI_TEST_TIMEOUT_MS=700",
                                     NULL});

    for (int r = 0; r < RANKS - 1; r++)
        cr_assert(r == MIDDLE || ranks_reach(ranks, r, "calling"));
    ranks_tell(ranks, RANKS - 1, "go");
    expect_timeout(ranks, RANKS, MIDDLE, "rank 2 (world rank 2)");
    ranks_signal(ranks, MIDDLE, SIGKILL);
    fault_finish(ranks);
}

/* Much sooner than the deadline, which is 20 s here. */
enum { SOON_MS = 8000 };

static void expect_mismatch(const struct fault_way *way, const char *case_name,
                            const char *const words[2])
{
    struct ranks *ranks = fault_start(way, "rank_group", case_name, 3, NULL);
    char status[64], text[2048];

    for (int r = 0; r < 3; r++) {
        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(ranks_result(ranks, r)->passed, "rank %d: %s", r, ranks_result(ranks, r)->out);
        cr_assert(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", text, sizeof text));
        cr_expect_str_eq(status, "TUTTI_ERR_MISMATCH", "rank %d: %s: %s", r, status, text);
        for (int i = 0; i < 2; i++)
            cr_expect_not_null(strstr(text, words[i]), "rank %d: %s", r, text);
        cr_expect(fault_within(ranks, r, ranks_point_ns(ranks, r, "open"), SOON_MS), "%s", text);
    }
    fault_finish(ranks);
}

Test(group, is_refused_when_lists_differ, .timeout = FAULT_TEST_S)
{
    static const char *const words[] = {"makes world{0-2} and waits for 2",
                                        "world rank 2 makes world{2,1,0} and waits for "};

    expect_mismatch(&fault_shm, "lists_differ", words);
}

Test(group, is_refused_when_orders_go_round, .timeout = FAULT_TEST_S)
{
    static const char *const words[] = {"world rank 1 makes world{1,2} and waits for 2",
                                        "world rank 0 makes world{0,1} and waits for 1"};

    expect_mismatch(&fault_composed, "orders_differ", words);
}

/* Nobody knows that it will not come after all: the deadline says where it is. */
Test(group, tells_at_the_deadline_where_a_missing_member_waits, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = fault_start(&fault_shm, "rank_group", "one_waits_elsewhere", 3, NULL);
    char status[64], words[2048];

    cr_assert(ranks_reach(ranks, 0, "returned"));
    cr_assert(ranks_reach(ranks, 2, "returned"));
    ranks_tell(ranks, 1, "go");
    cr_assert(ranks_wait(ranks));
    cr_assert(ranks_value(ranks, 0, "status", status, sizeof status));
    cr_assert(ranks_value(ranks, 0, "words", words, sizeof words));
    cr_expect_str_eq(status, "TUTTI_ERR_TIMEOUT");
    cr_expect_not_null(strstr(words, "missing: rank 1 (world rank 2); world rank 2 waits in group "
                                     "world{1,2}"),
                       "%s", words);
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

/* Half of what 16 groups take where each waits for the 50 ms after which nobody is waited for any more. */
static void expect_destroyed(struct ranks *ranks, int rank)
{
    cr_assert(ranks_reach(ranks, rank, "returned"));
    cr_expect(fault_within(ranks, rank, ranks_point_ns(ranks, rank, "destroying"), DESTROYED_MS),
              "rank %d waited for others that destroy their groups in another order", rank);
}

FAULT_TEST(group, many_are_destroyed_in_any_order_without_waiting)
{
    struct ranks *ranks = fault_start(way, "rank_group", "orders_of_destruction_differ", RANKS,
                                      (const char *[]){NULL});

    for (int r = 0; r < RANKS; r++)
        expect_destroyed(ranks, r);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

/* Local peers have it from memory. */
Test(group, many_are_destroyed_without_waiting_for_a_local_peer_that_is_elsewhere,
     .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = fault_start(&fault_shm, "rank_group", "orders_of_destruction_differ",
                                      RANKS, (const char *[]){victim_is(MIDDLE), NULL});

    for (int r = 0; r < RANKS; r++)
        if (r != MIDDLE)
            expect_destroyed(ranks, r);
    ranks_tell(ranks, MIDDLE, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}
