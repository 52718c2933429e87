/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(blocks, .timeout = 90);

static void run(const char *case_name, int size)
{
    static const char *const hosts[] = {"a", "b", "a", "c", "a"};
    struct ranks_options options = {.program = "rank_blocks",
                                    .case_name = case_name,
                                    .size = size,
                                    .backend = "shm,tcp",
                                    .timeout_ms = 40000};

    cr_expect(ranks_run(&options));
    options.backend = "auto";
    options.host_of = hosts;
    cr_expect(ranks_run(&options));
}

#define CASE(name, size)                                                                           \
    Test(blocks, name)                                                                             \
    {                                                                                              \
        run(#name, size);                                                                          \
    }

CASE(gathers_take_every_form, 5)
CASE(scatters_take_every_form, 5)
CASE(all_to_all_takes_every_form, 5)
CASE(wrong_blocks_are_refused_in_words, 3)
CASE(sizes_that_do_not_fit_together_are_a_mismatch, 3)
CASE(other_counts_of_the_same_sum_are_a_mismatch, 3)
CASE(a_monitored_barrier_names_all_who_did_not_come, 4)
