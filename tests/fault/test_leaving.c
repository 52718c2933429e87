/* SPDX-License-Identifier: Apache-2.0 */
/* Members that end a group, or their part in it, themselves. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

/* An abort is promised within 100 ms. Four ranks that move data share two CPUs here with the ranks of other
 * tests: a rank that has no CPU for 60 ms is passed over, and the next as well. */
enum { RANKS = 4, ABORT_MS = 100, SLACK_MS = 200 };
enum { LOOKED_MS = 500 }; /* a waiting rank has looked at all connections by then */

static struct ranks *start(const struct fault_way *way, const char *case_name, const char *call,
                           int victim, const char *more)
{
    char call_is[32], who[32];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    snprintf(who, sizeof who, "TUTTI_TEST_VICTIM=%d", victim);
    return fault_start(way, "rank_fault", case_name, RANKS,
                       (const char *[]){call_is, who, more, NULL});
}

/* Either one is late and the others wait for it, or data is on its way without end. */
enum abort_while { ONE_IS_LATE, ALL_CALL };

static void abort_from(const struct fault_way *way, const char *call, int victim,
                       enum abort_while state)
{
    struct ranks *ranks = start(way, "aborts_from_another_thread", call, victim,
                                state == ALL_CALL ? "TUTTI_TEST_ALL_CALL=1" : NULL);
    char who[64];

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    usleep(200000); /* they sleep by then */
    ranks_tell(ranks, victim, "abort");
    cr_assert(ranks_reach(ranks, victim, "aborting"));
    snprintf(who, sizeof who, "aborted by rank %d: the tests want it", victim);
    if (state == ONE_IS_LATE)
        ranks_tell(ranks, RANKS - 1, "go");
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .status = "TUTTI_ERR_ABORTED",
                                          .parts = {who},
                                          .from_ns = ranks_point_ns(ranks, victim, "aborting"),
                                          .budget_ms = way->mpi ? FAULT_BUDGET_MS /* in MPI_Test */
                                                                : ABORT_MS + SLACK_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(leaving, an_abort_from_another_thread_ends_a_barrier)
{
    abort_from(way, "barrier", 1, ONE_IS_LATE);
}

FAULT_TEST_EVERYWHERE(leaving, an_abort_from_another_thread_ends_a_large_all_reduce)
{
    abort_from(way, "large", 2, ONE_IS_LATE);
}

FAULT_TEST_WITH_ENGINES(leaving, an_abort_from_another_thread_ends_large_messages)
{
    abort_from(way, "messages", 1, ONE_IS_LATE);
}

FAULT_TEST_WITH_ENGINES(leaving, an_abort_from_another_thread_ends_what_is_being_moved)
{
    abort_from(way, "messages", 1, ALL_CALL);
    abort_from(way, "large", 2, ALL_CALL);
}

FAULT_TEST_WITH_ENGINES(leaving, an_abort_by_rank_0_ends_asynchronous_work)
{
    abort_from(way, "work", 0, ONE_IS_LATE);
}

FAULT_TEST_EVERYWHERE(leaving, an_exit_without_destroy_is_a_loss_in_words)
{
    struct ranks *ranks = start(way, "one_exits", "large", 2, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_tell(ranks, 2, "go");
    cr_assert(ranks_reach(ranks, 2, "exiting"));
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << 2,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"rank 2 (", "exited without"},
                                                 .from_ns = ranks_point_ns(ranks, 2, "exiting"),
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(leaving, an_exit_of_rank_0_without_destroy_is_a_loss_in_words)
{
    struct ranks *ranks = start(way, "one_exits", "barrier", 0, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_tell(ranks, 0, "go");
    cr_assert(ranks_reach(ranks, 0, "exiting"));
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << 0,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"rank 0 (", "exited without"},
                                                 .from_ns = ranks_point_ns(ranks, 0, "exiting"),
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

static void leave_first(const struct fault_way *way, const char *call, int victim)
{
    struct ranks *ranks = start(way, "one_leaves_first", call, victim, NULL);
    char words[64];

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_tell(ranks, victim, "go");
    cr_assert(ranks_reach(ranks, victim, "leaving"));
    snprintf(words, sizeof words, "rank %d left after #1", victim);
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u << victim,
                                          .status = "TUTTI_ERR_PEER_LOST",
                                          .parts = {words, "#2"},
                                          .from_ns = ranks_point_ns(ranks, victim, "leaving"),
                                          .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(leaving, who_left_before_a_call_is_named)
{
    leave_first(way, "barrier", 2);
}

FAULT_TEST_WITH_ENGINES(leaving, who_left_before_a_large_call_is_named)
{
    leave_first(way, "large", 3);
}

FAULT_TEST_WITH_ENGINES(leaving, rank_0_that_left_before_a_call_is_named)
{
    leave_first(way, "small", 0);
}

/* Of a broadcast over Gloo the root and rank 1 are done, while rank 0 waits for rank 2. */
FAULT_TEST_WITH_ENGINES(leaving, who_is_done_first_ends_no_call_of_the_others)
{
    struct ranks *ranks = start(way, "each_leaves_when_it_is_done", "broadcast", 2, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    if (way == &fault_gloo)
        cr_assert(ranks_reach(ranks, 1, "left") && ranks_reach(ranks, RANKS - 1, "left"));
    usleep(LOOKED_MS * 1000);
    ranks_tell(ranks, 2, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

static void receive_from_who_left(const struct fault_way *way, const char *more)
{
    struct ranks *ranks = start(way, "one_sends_and_leaves", "message", 2, more);

    cr_assert(ranks_reach(ranks, 2, "left"));
    for (int r = 0; r < RANKS; r++)
        if (r != 2)
            ranks_tell(ranks, r, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(leaving, what_was_sent_is_received_when_its_sender_has_left)
{
    receive_from_who_left(way, NULL);
}

FAULT_TEST_WITH_ENGINES(leaving, what_was_sent_is_received_after_a_send_to_a_left_member)
{
    receive_from_who_left(way, "TUTTI_TEST_SEND_FIRST=1");
}

FAULT_TEST_WITH_ENGINES(leaving, forked_children_disturb_nobody)
{
    struct ranks *ranks = start(way, "children_are_told_that_they_forked", "small", 0, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}
