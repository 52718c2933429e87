/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions on GPUs by kernels between operations of NCCL, on the stand-ins of both libraries. */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(nccl_kernels, .timeout = 120);

static const char *const eight_gpus[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA,
                                         "TUTTI_NCCL=" TUTTI_STANDIN_NCCL,
                                         "STANDIN_CUDA_DEVICES=8",
                                         "TUTTI_BACKEND=cpu:auto,cuda:nccl",
                                         "STANDIN_NCCL_FAULT_RANK=1",
                                         NULL,
                                         NULL};
enum { FAULT = sizeof eight_gpus / sizeof eight_gpus[0] - 2 };

static void run_of(const char *name, int size)
{
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_nccl_kernels", .case_name = name, .size = size, .env = eight_gpus}));
}

#define CASE(name, size)                                                                           \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        run_of(#name, size);                                                                       \
    }
/* With members whose number does and does not divide the counts. */
#define SIZES_CASE(name)                                                                           \
    Test(nccl_kernels, name)                                                                       \
    {                                                                                              \
        for (int size = 1; size <= 5; size++)                                                      \
            run_of(#name, size);                                                                   \
    }

SIZES_CASE(kernels_give_the_bits_of_the_host)
SIZES_CASE(kernels_give_the_bits_of_the_host_in_fixed_order)
SIZES_CASE(any_count_goes_by_kernels)
CASE(blocks_of_different_sizes_go_by_kernels, 4)
CASE(long_tensors_are_reduced_in_pieces, 3)
CASE(a_call_by_kernels_returns_while_its_stream_is_held, 3)
CASE(streams_wait_for_works_by_kernels, 2)
CASE(batches_and_plans_have_calls_by_kernels, 3)
CASE(tensors_with_strides_go_by_kernels, 3)

/* Three ranks with a fault of rank 1, or none. Those that live pass, and hear the same. */
static void expect_same_words(const char *name, const char *fault, bool without_1)
{
    const char *env[FAULT + 2], *const *last = eight_gpus;
    char words[3][512] = {""};

    for (int i = 0; i < FAULT; i++)
        env[i] = *last++;
    env[FAULT] = fault;
    env[FAULT + 1] = NULL;
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_nccl_kernels", .case_name = name, .size = 3, .env = env});
    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < 3; r += 1 + without_1) {
        cr_expect(ranks_result(ranks, r)->passed, "%d: %s", r, ranks_result(ranks, r)->out);
        cr_expect(ranks_value(ranks, r, "words", words[r], sizeof words[0]));
        cr_expect_str_eq(words[r], words[0]);
    }
    ranks_free(ranks);
}

Test(nccl_kernels, a_rank_that_is_killed_ends_a_call_by_kernels)
{
    expect_same_words("a_rank_that_is_killed_ends_a_call_by_kernels", NULL, true);
}

Test(nccl_kernels, the_fixed_order_on_one_rank_alone_is_a_mismatch)
{
    expect_same_words("the_fixed_order_on_one_rank_alone_is_a_mismatch", NULL, false);
}

Test(nccl_kernels, an_error_between_kernels_is_told_to_all)
{
    expect_same_words("an_error_between_kernels_is_told_to_all", "STANDIN_NCCL_ASYNC_AT=2", false);
}

Test(nccl_kernels, a_rank_without_memory_for_kernels_ends_the_group)
{
    expect_same_words("a_rank_without_memory_for_kernels_ends_the_group",
                      "STANDIN_CUDA_MEMORY_MIB=8", false);
}
