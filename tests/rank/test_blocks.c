/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

TestSuite(blocks, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(blocks, name)                                                                             \
    {                                                                                              \
        run_everywhere("rank_blocks", #name, size);                                                \
    }

#define OVER(backend_, program_, name, size_)                                                      \
    Test(blocks, name)                                                                             \
    {                                                                                              \
        cr_expect(ranks_run(&(struct ranks_options){.program = (program_),                         \
                                                    .case_name = #name,                            \
                                                    .size = (size_),                               \
                                                    .backend = (backend_),                         \
                                                    .timeout_ms = 120000}));                       \
    }

CASE(gathers_take_every_form, 5)
CASE(scatters_take_every_form, 5)
CASE(all_to_all_takes_every_form, 5)
OVER("tcp", "rank_blocks", short_blocks_of_many_members_arrive, 25)
OVER("shm", "rank_uncached", blocks_of_changing_lengths_pass_through_the_windows, 3)
OVER("shm", "rank_uncached", blocks_that_no_cache_holds_arrive, 3)
OVER("shm", "rank_uncached", messages_that_no_cache_holds_arrive, 3)
CASE(wrong_blocks_are_refused_in_words, 3)
CASE(all_to_all_of_blocks_that_partly_overlap_is_refused_in_words, 3)
CASE(output_blocks_that_overlap_are_refused_in_words, 3)
CASE(all_to_all_takes_a_list_in_place_of_which_some_are_strided, 3)
CASE(sizes_that_do_not_fit_together_are_a_mismatch, 3)
CASE(the_plain_form_and_a_list_of_all_to_all_are_a_mismatch, 3)
CASE(other_counts_of_the_same_sum_are_a_mismatch, 3)
CASE(a_monitored_barrier_names_all_missing_ranks, 4)
