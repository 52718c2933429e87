/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

TestSuite(p2p, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(p2p, name)                                                                                \
    {                                                                                              \
        run_everywhere("rank_p2p", #name, size);                                                   \
    }

CASE(a_rank_sends_to_itself, 2)
CASE(a_large_blocking_send_to_oneself_ends_at_its_deadline_and_says_why, 2)
CASE(a_receive_with_another_tag_is_told_which_one_was_sent, 2)
CASE(a_receive_from_a_rank_that_left_is_told_which_tag_it_sent, 2)
CASE(a_large_send_that_nobody_receives_ends_alone_at_its_deadline, 3)
CASE(sends_that_are_cancelled_while_receives_come_lose_and_swap_nothing, 2)
CASE(a_started_receive_from_any_source_may_be_met_by_oneself_when_all_others_have_left, 3)
CASE(another_thread_may_receive_what_a_rank_sends_to_itself, 2)
CASE(messages_around_every_limit_arrive_whole_in_any_order, 2)
CASE(a_message_fails_in_the_same_words_with_options_and_without, 3)
CASE(a_receive_of_up_to_so_many_bytes_tells_how_many_came, 2)
CASE(sendrecv_passes_large_messages_around_a_ring, 3)
CASE(an_exchange_ends_whole_when_one_half_fails, 3)
CASE(a_batch_of_sends_and_receives_may_be_in_any_order, 3)
CASE(a_batch_with_a_wrong_operation_starts_none, 3)
CASE(operations_of_another_size_are_read_as_far_as_they_are_known, 2)
