/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

TestSuite(batch, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(batch, name)                                                                              \
    {                                                                                              \
        run_everywhere("rank_batch", #name, size);                                                 \
    }

CASE(collectives_and_messages_of_a_batch_are_waited_for_together, 3)
CASE(a_call_of_a_batch_may_use_the_result_of_one_before, 3)
CASE(ranks_without_a_batch_take_part_in_that_of_another, 4)
CASE(a_mismatch_in_the_middle_of_a_batch_names_the_call, 3)
CASE(a_call_that_differs_from_a_rank_far_ahead_fails_at_once, 3)
CASE(large_sends_of_a_batch_may_come_before_the_receives, 3)
CASE(receives_of_a_batch_tell_their_source_and_size, 3)
CASE(a_refused_call_makes_its_batch_void, 2)
CASE(the_work_of_a_batch_has_the_first_failure_and_waits_for_all, 3)
CASE(a_group_that_ends_ends_its_batches, 3)
CASE(a_batch_is_of_its_thread_alone, 3)
CASE(a_batch_of_a_thread_that_ended_takes_no_calls, 3)
CASE(one_thread_may_have_batches_of_two_groups, 3)
