/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs that is registered with NCCL, on the stand-ins of both libraries. */
#include <criterion/criterion.h>
#include <string.h>

#include "harness/launch.h"
#include "same_words.h"

TestSuite(nccl_memory, .timeout = 120);

#define GPUS "TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "STANDIN_CUDA_DEVICES=8"
#define LIBRARIES GPUS, "TUTTI_NCCL=" TUTTI_STANDIN_NCCL
#define OVER_NCCL "TUTTI_BACKEND=cpu:auto,cuda:nccl"

static struct ranks *start_of(const char *program, const char *name, int size,
                              const char *const *env)
{
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = program, .case_name = name, .size = size, .env = env});

    cr_assert_not_null(ranks);
    return ranks;
}

static struct ranks *start(const char *name, int size, const char *const *env)
{
    return start_of("rank_nccl_memory", name, size, env);
}

static void expect_passed(struct ranks *ranks, int size, int dead)
{
    cr_expect(ranks_wait(ranks) || dead >= 0);
    for (int r = 0; r < size; r++)
        cr_expect(r == dead || ranks_result(ranks, r)->passed, "%d: %s%s", r,
                  ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
    ranks_free(ranks);
}

/* A variable is NULL, or NAME=VALUE. */
static void run(const char *name, int size, const char *variable, const char *more)
{
    const char *const env[] = {LIBRARIES, OVER_NCCL, variable ? variable : more,
                               variable ? more : NULL, NULL};

    expect_passed(start(name, size, env), size, -1);
}

#define CASE(name, size)                                                                           \
    Test(nccl_memory, name)                                                                        \
    {                                                                                              \
        run(#name, size, NULL, NULL);                                                              \
    }
#define CASE_WITH(name, size, variable)                                                            \
    Test(nccl_memory, name)                                                                        \
    {                                                                                              \
        run(#name, size, variable, NULL);                                                          \
    }

CASE(calls_lie_in_memory_that_nccl_allocates, 3)
CASE(memory_of_the_program_is_registered_where_it_lies, 2)
CASE(members_may_register_different_sizes_again_and_again, 3)
CASE(host_memory_is_registered_beside_that_of_gpus, 2)
CASE(memory_is_busy_while_a_call_over_nccl_is_on_its_stream, 2)
CASE(what_is_registered_with_nccl_ends_with_the_group, 3)
CASE(memory_may_be_registered_with_two_groups_over_nccl, 4)
CASE(memory_that_nccl_cannot_register_is_refused_in_words, 2)
CASE(a_member_that_cannot_register_is_named_by_all, 3)
CASE(host_memory_on_one_member_and_a_gpu_on_another_is_a_mismatch, 3)
CASE(a_child_of_fork_cannot_use_registered_memory_of_gpus, 2)
CASE(captured_calls_keep_registered_memory_until_the_group_ends, 2)
CASE_WITH(a_group_of_one_has_memory_on_its_gpu, 1, NULL)
CASE_WITH(calls_over_nccl_wait_while_another_thread_frees_memory, 3, "STANDIN_NCCL_REGISTER_MS=100")

/* ---- without NCCL's functions ---- */

static void expect_ordinary(const char *const *env, const char *words)
{
    struct ranks *ranks = start("without_functions_of_nccl_memory_is_ordinary", 2, env);

    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < 2; r++) {
        const char *said = ranks_result(ranks, r)->err;

        cr_expect(strstr(said, "are allocated by its driver, and not registered: "), "%s", said);
        cr_expect(strstr(said, words), "%s", said);
    }
    expect_passed(ranks, 2, -1);
}

Test(nccl_memory, without_functions_of_nccl_memory_is_ordinary)
{
    const char *const env[] = {GPUS,
                               OVER_NCCL,
                               "TUTTI_NCCL=" TUTTI_STANDIN_NCCL_OLD,
                               "STANDIN_NCCL_VERSION=21805",
                               "TUTTI_DEBUG=INFO",
                               NULL};

    expect_ordinary(env, "NCCL 2.18.5, has no functions that register memory");
}

Test(nccl_memory, without_nccl_memory_of_gpus_is_ordinary)
{
    const char *const env[] = {LIBRARIES, "TUTTI_BACKEND=shm", "TUTTI_TEST_SHM=1",
                               "TUTTI_DEBUG=INFO", NULL};

    expect_ordinary(env, "no engine of group world moves tensors on devices");
}

/* ---- failures, on rank 1 ---- */

static void run_failing(const char *fault)
{
    run("a_failure_of_nccl_to_register_is_told_to_all", 3, fault, "STANDIN_NCCL_FAULT_RANK=1");
}

Test(nccl_memory, a_failure_of_nccl_to_register_is_told_to_all)
{
    run_failing("STANDIN_NCCL_REGISTER_AT=1");
}

Test(nccl_memory, a_failure_of_nccl_to_allocate_is_told_to_all)
{
    run_failing("STANDIN_NCCL_ALLOCATE_AT=1");
}

CASE(a_gpu_that_has_no_memory_is_told_to_all, 3)

Test(nccl_memory, registered_memory_is_freed_after_a_rank_is_killed)
{
    const char *const env[] = {LIBRARIES, OVER_NCCL, "STANDIN_NCCL_ABORT_MS=300", NULL};
    struct ranks *ranks = start("registered_memory_is_freed_after_a_rank_is_killed", 3, env);

    kill_rank_1(ranks);
    expect_passed(ranks, 3, 1);
}

Test(nccl_memory, an_abort_frees_registered_memory)
{
    run("an_abort_frees_registered_memory", 3, "STANDIN_NCCL_HANGS_AT=1",
        "STANDIN_NCCL_ABORT_MS=300");
}

/* ---- memory that is in use ---- */

static void run_busy(const char *name, int size, const char *variable, const char *more)
{
    const char *const env[] = {LIBRARIES, OVER_NCCL, variable ? variable : more,
                               variable ? more : NULL, NULL};

    expect_passed(start_of("rank_nccl_memory_busy", name, size, env), size, -1);
}

Test(nccl_memory, memory_is_freed_by_a_thread_while_the_group_is_aborted)
{
    run_busy("memory_is_freed_by_a_thread_while_the_group_is_aborted", 2, NULL, NULL);
}

Test(nccl_memory, memory_is_busy_while_a_call_on_it_is_queued)
{
    run_busy("memory_is_busy_while_a_call_on_it_is_queued", 2, NULL, NULL);
}

Test(nccl_memory, memory_is_busy_while_a_stream_waits_for_a_work)
{
    run_busy("memory_is_busy_while_a_stream_waits_for_a_work", 2, NULL, NULL);
}

Test(nccl_memory, a_group_ends_when_no_stream_waits_for_a_work)
{
    const char *const env[] = {LIBRARIES, OVER_NCCL, NULL};
    struct ranks *ranks =
        start_of("rank_nccl_memory_busy", "a_group_ends_when_no_stream_waits_for_a_work", 2, env);

    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < 2; r++)
        cr_expect(strstr(ranks_result(ranks, r)->err, "waits to free its registered memory"), "%s",
                  ranks_result(ranks, r)->err);
    expect_passed(ranks, 2, -1);
}

Test(nccl_memory, memory_that_one_member_refused_can_be_registered_again)
{
    run_busy("memory_that_one_member_refused_can_be_registered_again", 2, NULL, NULL);
}

Test(nccl_memory, members_give_memory_back_once_calls_are_off_their_streams)
{
    run_busy("members_give_memory_back_once_calls_are_off_their_streams", 3,
             "STANDIN_NCCL_REGISTER_AT=1", "STANDIN_NCCL_FAULT_RANK=1");
}

Test(nccl_memory, memory_that_cannot_be_given_back_is_named)
{
    run_busy("memory_that_cannot_be_given_back_is_named", 2, "STANDIN_NCCL_REGISTER_AT=1",
             "STANDIN_NCCL_FAULT_RANK=1");
}

Test(nccl_memory, an_abort_that_does_not_end_is_waited_for_once)
{
    run_busy("an_abort_that_does_not_end_is_waited_for_once", 2, "STANDIN_NCCL_ABORT_MS=7000",
             NULL);
}
