/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(ranks_reduce, .timeout = 400);

/* Over shm, tcp and both, in two layouts. */
static void run(const char *case_name, int size, const char *const *env)
{
    static const char *const in_turn[] = {"a", "b", "a", "c", "a"};
    static const char *const one_apart[] = {"a", "b", "b", "b", "b"};
    struct ranks_options options = {.program = "rank_reduce",
                                    .case_name = case_name,
                                    .size = size,
                                    .backend = "shm,tcp",
                                    .timeout_ms = 120000,
                                    .env = env};

    cr_expect(ranks_run(&options));
    options.backend = "auto";
    options.host_of = in_turn;
    cr_expect(ranks_run(&options));
    options.host_of = one_apart;
    cr_expect(ranks_run(&options));
}

#define CASE(name, size)                                                                           \
    Test(ranks_reduce, name)                                                                       \
    {                                                                                              \
        run(#name, size, NULL);                                                                    \
    }

CASE(the_fixed_order_gives_the_bits_of_the_tree, 5)
CASE(a_mean_never_lies_outside_its_operands, 5)
CASE(a_member_without_the_fixed_order_is_a_mismatch, 3)
CASE(operands_of_an_operation_that_does_not_commute_keep_their_order, 5)
CASE(an_operation_that_commutes_may_be_freed_at_once, 3)
CASE(operations_of_different_names_are_a_mismatch, 3)
CASE(each_member_multiplies_with_its_own_factor, 3)
CASE(an_empty_input_takes_an_empty_factor, 3)
CASE(bools_are_0_or_1_in_a_group_of_one_too, 3)

Test(ranks_reduce, the_environment_asks_for_the_fixed_order)
{
    static const char *const env[] = {"TUTTI_REPRODUCIBLE=1", NULL};

    run("the_environment_asks_for_the_fixed_order", 3, env);
}
