/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions on GPUs by kernels between operations of NCCL, on the stand-ins of both libraries. */
#include <criterion/criterion.h>

#include "harness/launch.h"
#include "same_words.h"

TestSuite(nccl_kernels, .timeout = 120);

#define SURROUNDINGS                                                                               \
    "TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "TUTTI_NCCL=" TUTTI_STANDIN_NCCL, "STANDIN_CUDA_DEVICES=8",  \
        "TUTTI_BACKEND=cpu:auto,cuda:nccl"

static void run_of(const char *program, const char *name, int size)
{
    const char *const env[] = {SURROUNDINGS, NULL};

    cr_expect(ranks_run(
        &(struct ranks_options){.program = program, .case_name = name, .size = size, .env = env}));
}

#define CASE(name, size)                                                                           \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        run_of("rank_nccl_kernels", #name, size);                                                  \
    }
/* With members whose number does and does not divide the counts. */
#define SIZES_CASE(name)                                                                           \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        for (int size = 1; size <= 5; size++)                                                      \
            run_of("rank_nccl_kernels", #name, size);                                              \
    }

SIZES_CASE(kernels_give_the_bits_of_the_host)
SIZES_CASE(kernels_give_the_bits_of_the_host_in_fixed_order)
SIZES_CASE(any_count_goes_by_kernels)
CASE(blocks_of_different_sizes_go_by_kernels, 4)
CASE(long_tensors_are_reduced_in_pieces, 3)
CASE(a_call_by_kernels_returns_while_its_stream_is_held, 3)
CASE(streams_wait_for_works_by_kernels, 2)
CASE(a_held_stream_holds_up_no_kernels_of_another_group, 3)
CASE(batches_and_plans_have_calls_by_kernels, 3)
CASE(tensors_with_strides_go_by_kernels, 3)

/* ---- PREMUL_SUM ---- */

#define PREMUL_CASE(name, size)                                                                    \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        run_of("rank_nccl_premul", #name, size);                                                   \
    }

PREMUL_CASE(premul_sums_give_the_bits_of_the_host, 3)
PREMUL_CASE(a_premul_sum_returns_while_its_stream_is_held, 3)
PREMUL_CASE(premul_sums_take_strides_batches_and_refuse_plans, 3)
PREMUL_CASE(a_premul_sum_changes_nothing_before_its_batch_ends, 3)
PREMUL_CASE(a_premul_sum_of_a_group_that_has_ended_changes_nothing, 2)
PREMUL_CASE(premul_sums_of_blocks_have_a_factor_for_each_element, 4)
PREMUL_CASE(a_premul_sum_of_host_and_gpu_memory_is_refused, 2)
PREMUL_CASE(a_captured_premul_sum_multiplies_in_each_replay, 3)

/* ---- failures ---- */

/* Three ranks with a fault of rank 1; NULL: none. */
static struct ranks *start(const char *name, const char *fault)
{
    const char *const env[] = {SURROUNDINGS, "STANDIN_NCCL_FAULT_RANK=1", fault, NULL};
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_nccl_kernels", .case_name = name, .size = 3, .env = env});

    cr_assert_not_null(ranks);
    return ranks;
}

#define SAME_WORDS(name, fault)                                                                    \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        expect_same_words(start(#name, fault), false);                                             \
    }

SAME_WORDS(the_fixed_order_on_one_rank_alone_is_a_mismatch, NULL)
SAME_WORDS(kernels_that_wait_for_a_rank_end_at_their_deadline, NULL)
SAME_WORDS(an_error_between_kernels_is_told_to_all, "STANDIN_NCCL_ASYNC_AT=2")
SAME_WORDS(a_rank_without_memory_for_kernels_ends_the_group, "STANDIN_CUDA_MEMORY_MIB=8")

Test(nccl_kernels, a_rank_that_is_killed_ends_a_call_by_kernels)
{
    struct ranks *ranks = start("a_rank_that_is_killed_ends_a_call_by_kernels", NULL);

    kill_rank_1(ranks);
    expect_same_words(ranks, true);
}
