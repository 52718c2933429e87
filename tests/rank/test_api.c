/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(api, .timeout = 400);

static void run(const char *case_name, int size)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_api",
                                                .case_name = case_name,
                                                .size = size,
                                                .backend = "shm,tcp",
                                                .timeout_ms = 120000}));
}

#define CASE(name, size)                                                                           \
    Test(api, name)                                                                                \
    {                                                                                              \
        run(#name, size);                                                                          \
    }

CASE(elements_of_no_known_dtype_are_moved_and_not_reduced, 3)
CASE(ring_by_hand_with_large_messages, 3)
CASE(a_small_message_overtakes_a_large_one_that_nobody_receives, 2)
CASE(what_was_sent_arrives_although_the_sender_leaves_at_once, 3)
CASE(messages_of_another_size_are_an_error_of_that_receive_alone, 3)
CASE(a_receive_that_times_out_leaves_the_group_alone, 3)
CASE(many_works_in_flight_complete_in_any_order_of_waiting, 3)
CASE(callbacks_come_once_and_need_no_waiter, 3)
CASE(the_event_descriptor_tells_of_completion, 2)
CASE(a_wait_that_ends_early_changes_nothing, 2)
CASE(a_work_may_outlive_its_group_and_a_handle_its_use, 3)
CASE(init_and_destroy_again_and_again, 3)
CASE(threads_share_a_group, 3)
CASE(wrong_arguments_are_refused_in_words, 2)
CASE(the_recorder_and_the_counters_tell_what_happened, 2)

Test(api, the_ring_works_on_a_composed_group)
{
    static const char *const hosts[] = {"a", "b", "a"};

    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_api",
                                                .case_name = "ring_by_hand_with_large_messages",
                                                .size = 3,
                                                .backend = "auto",
                                                .host_of = hosts,
                                                .timeout_ms = 120000}));
}
