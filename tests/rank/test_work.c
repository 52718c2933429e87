/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

TestSuite(work, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(work, name)                                                                               \
    {                                                                                              \
        run_everywhere("rank_work", #name, size);                                                  \
    }

CASE(wait_all_waits_for_thousands_of_collectives_and_messages, 3)
CASE(wait_any_gives_each_work_once_in_the_order_of_completion, 2)
CASE(wait_all_tells_which_failed_and_which_are_not_complete, 2)
CASE(wait_any_takes_works_of_several_contexts, 2)
CASE(a_cancelled_receive_leaves_the_message_to_the_next_one, 2)
CASE(what_is_under_way_or_collective_cannot_be_cancelled, 2)
CASE(what_a_work_keeps_alive_is_let_go_exactly_once, 2)
CASE(a_set_of_works_may_be_looked_at_without_waiting, 2)
CASE(wrong_arguments_about_works_are_refused_in_words, 2)
CASE(a_call_waited_for_next_has_no_work_if_it_is_complete, 3)
CASE(calls_waited_for_next_that_differ_are_a_mismatch, 2)
CASE(threads_share_groups_and_each_waits_for_its_own, 3)

/* A foreign transport takes messages back in its own way. */
#define OVER_GLOO(name, ranks)                                                                     \
    Test(work, name##_over_gloo)                                                                   \
    {                                                                                              \
        if (ranks_lack("gloo"))                                                                    \
            cr_skip_test("%s", ranks_lack("gloo"));                                                \
        cr_expect(ranks_run(&(struct ranks_options){                                               \
            .program = "rank_work", .case_name = #name, .size = ranks, .backend = "gloo"}));       \
    }

OVER_GLOO(a_cancelled_receive_leaves_the_message_to_the_next_one, 2)
OVER_GLOO(what_is_under_way_or_collective_cannot_be_cancelled, 2)
