/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

TestSuite(plans, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(plans, name)                                                                              \
    {                                                                                              \
        run_everywhere("rank_plans", #name, size);                                                 \
    }

CASE(a_plan_of_one_call_runs_again_with_what_its_tensor_holds, 3)
CASE(a_plan_of_several_calls_keeps_all_but_the_memory, 3)
CASE(plans_refuse_in_words_what_they_cannot_repeat, 2)
CASE(a_plan_that_differs_is_a_mismatch_in_the_run_that_differs, 3)
