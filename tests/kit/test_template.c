/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin template as a backend: what the core does for a transport that has the seven required
 * functions and no other, so nothing to cancel with, to sleep on, or to ask for all at once.
 */
#include <criterion/criterion.h>
#include <signal.h>

#include "harness/launch.h"
#include "harness/stalls.h"

TestSuite(template, .timeout = 400);

static const char *const where[] = {"TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS, NULL};

static void run(const char *case_name, int size)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_api",
                                                .case_name = case_name,
                                                .size = size,
                                                .backend = "template",
                                                .env = where,
                                                .timeout_ms = 120000}));
}

#define CASE(name, size)                                                                           \
    Test(template, name)                                                                           \
    {                                                                                              \
        run(#name, size);                                                                          \
    }

CASE(ring_by_hand_with_large_messages, 3)
CASE(a_small_message_overtakes_a_large_one_that_nobody_receives, 2)
CASE(what_was_sent_arrives_although_the_sender_leaves_at_once, 3)
CASE(last_broadcasts_arrive_although_members_leave_at_once, 4)
CASE(messages_of_another_size_are_an_error_of_that_receive_alone, 3)
CASE(a_receive_that_times_out_leaves_the_group_alone, 3)
CASE(many_works_in_flight_complete_in_any_order_of_waiting, 3)
CASE(callbacks_come_once_and_need_no_waiter, 3)
CASE(a_work_may_outlive_its_group_and_a_handle_its_use, 3)
CASE(init_and_destroy_again_and_again, 3)
CASE(threads_share_a_group, 3)
CASE(the_recorder_and_the_counters_tell_what_happened, 2)

static void end(struct ranks *ranks)
{
    char words[1024];

    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
    ranks_free(ranks);
}

/* Members that are polled for, and others that are slept for, in one process. */
Test(template, works_inside_hosts_with_tcp_between_them)
{
    static const char *const hosts[] = {"a", "b", "a"};
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_api",
                                            .case_name = "ring_by_hand_with_large_messages",
                                            .size = 3,
                                            .backend = "local=template,remote=tcp",
                                            .env = where,
                                            .host_of = hosts,
                                            .timeout_ms = 120000});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    end(ranks);
}

/* Without `cancel` the core gives it its own memory only: the caller has its buffers back when the
 * call returns, and the ranks free them. */
static void kill_one(const char *call)
{
    enum { SIZE = 4, VICTIM = 2, BUDGET_MS = 1000 };
    char status[64];
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_fault",
        .case_name = "calls_for_ever",
        .size = SIZE,
        .backend = "template",
        .env = (const char *[]){where[0], call, "TUTTI_TEST_VICTIM=2", NULL},
        .timeout_ms = 120000});

    cr_assert_not_null(ranks);
    stalls_watch();
    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t killed = ranks_signal(ranks, VICTIM, SIGKILL);
    for (int r = 0; r < SIZE; r++) {
        if (r == VICTIM)
            continue;
        cr_assert(ranks_wait_rank(ranks, r) && ranks_value(ranks, r, "status", status, 64));
        cr_expect_str_eq(status, "TUTTI_ERR_PEER_LOST");
        int64_t at = ranks_point_ns(ranks, r, "returned");
        cr_expect(at - killed <= (BUDGET_MS + ranks_withheld_ms(ranks, killed, at)) * 1000000LL ||
                  ranks_have_instruments());
    }
    end(ranks);
}

Test(template, survivors_of_a_killed_rank_return_from_small_calls)
{
    kill_one("TUTTI_TEST_CALL=small");
}

Test(template, survivors_of_a_killed_rank_return_from_large_calls)
{
    kill_one("TUTTI_TEST_CALL=large");
}
