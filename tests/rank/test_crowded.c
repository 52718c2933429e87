/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

enum { CROWD = 8, LARGER_CROWD = 12 };

TestSuite(crowded, .timeout = 400);

static void run_case(const char *name, int size)
{
    ranks_limit_cpus(CROWD - 1);
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_crowded",
                                                .case_name = name,
                                                .size = size,
                                                .backend = "shm",
                                                .timeout_ms = 120000}));
}

#define CASE(name)                                                                                 \
    Test(crowded, name)                                                                            \
    {                                                                                              \
        run_case(#name, CROWD);                                                                    \
    }

CASE(groups_of_many_ranks_go_in_rounds_and_others_do_not)
CASE(ranks_with_different_cpus_agree)
CASE(results_have_the_same_bits_as_by_other_algorithms)
CASE(registered_memory_is_used_beside_rounds)
CASE(long_blocks_are_read_in_the_roots_memory)
CASE(long_blocks_are_staged_if_one_rank_is_told_so)
CASE(works_of_all_kinds_are_in_flight_together)

/* The longest vectors take two rounds. */
Test(crowded, results_of_several_rounds_have_the_same_bits)
{
    run_case("results_have_the_same_bits_as_by_other_algorithms", LARGER_CROWD);
}
