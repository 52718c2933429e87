/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of tensors on GPUs over NCCL, on the stand-ins of both libraries. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "harness/launch.h"
#include "same_words.h"

TestSuite(nccl_messages, .timeout = 120);

#define LIBRARIES                                                                                  \
    "TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "TUTTI_NCCL=" TUTTI_STANDIN_NCCL, "STANDIN_CUDA_DEVICES=8"
#define SURROUNDINGS LIBRARIES, "TUTTI_BACKEND=cpu:auto,cuda:nccl"
#define MESSAGES "rank_nccl_messages"
#define BATCHES "rank_nccl_message_batches"

/* A variable is NULL, or NAME=VALUE. */
static void run_with(const char *program, const char *name, int size, const char *variable)
{
    const char *const env[] = {SURROUNDINGS, variable, NULL};

    cr_expect(ranks_run(
        &(struct ranks_options){.program = program, .case_name = name, .size = size, .env = env}));
}

static void run_of(const char *program, const char *name, int size)
{
    run_with(program, name, size, NULL);
}

static struct ranks *start_of(const char *program, const char *name, int size, const char *fault,
                              const char *more)
{
    const char *const env[] = {SURROUNDINGS, "STANDIN_NCCL_FAULT_RANK=1", fault, more, NULL};
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = program, .case_name = name, .size = size, .env = env});

    cr_assert_not_null(ranks);
    return ranks;
}

#define CASE(name, size)                                                                           \
    Test(nccl_messages, name)                                                                      \
    {                                                                                              \
        run_of(MESSAGES, #name, size);                                                             \
    }
/* Communicators take long to be made, so that messages are ready before. */
#define SLOW_CASE(name, size)                                                                      \
    Test(nccl_messages, name)                                                                      \
    {                                                                                              \
        run_with(BATCHES, #name, size, "STANDIN_NCCL_JOIN_MS=500");                                \
    }
#define BATCH_CASE(name, size)                                                                     \
    Test(nccl_messages, name)                                                                      \
    {                                                                                              \
        run_of(BATCHES, #name, size);                                                              \
    }
/* What messages between GPUs do over any backend. */
#define DEVICE_CASE(name, size)                                                                    \
    Test(nccl_messages, name)                                                                      \
    {                                                                                              \
        run_of("rank_device_messages", #name, size);                                               \
    }

CASE(messages_of_64_kib_and_more_go_over_nccl, 2)
CASE(later_work_on_the_stream_finds_a_message, 2)
CASE(tags_and_any_source_match_messages_over_nccl, 3)
CASE(messages_in_both_directions_go_over_nccl_beside_sums, 2)
CASE(batches_and_plans_have_messages_over_nccl, 2)
CASE(a_stream_waits_for_a_message_over_nccl, 2)
CASE(messages_between_gpus_and_host_memory_go_by_pinned_memory, 2)
CASE(a_message_into_strides_goes_by_pinned_memory, 2)
CASE(a_message_to_oneself_goes_by_pinned_memory, 2)
CASE(a_receive_whose_stream_waits_for_a_later_message_holds_nobody_up, 2)
CASE(a_message_over_nccl_that_is_too_long_is_a_mismatch, 2)
CASE(a_message_over_nccl_that_is_cancelled_is_not_received, 2)
CASE(messages_over_nccl_that_are_cancelled_at_any_time_lose_nothing, 2)
CASE(a_message_over_nccl_that_nobody_receives_times_out, 2)
SLOW_CASE(messages_of_a_batch_that_are_ready_together_are_one_launch, 2)
SLOW_CASE(messages_of_different_batches_are_launches_of_their_own, 2)
BATCH_CASE(a_batch_of_messages_meets_calls_one_by_one, 2)
BATCH_CASE(a_message_of_a_batch_does_not_wait_for_the_rest_of_it, 3)
BATCH_CASE(a_batch_of_messages_waits_for_its_stream, 2)
BATCH_CASE(a_message_of_a_list_that_is_cancelled_leaves_the_others, 2)
BATCH_CASE(a_message_of_a_batch_that_is_too_long_fails_alone, 2)
DEVICE_CASE(long_messages_between_gpus_and_hosts_bring_every_element, 4)
DEVICE_CASE(long_messages_with_strides_and_to_oneself_are_right, 2)
DEVICE_CASE(a_shorter_message_leaves_the_rest_of_a_gpu_tensor_as_it_is, 2)
DEVICE_CASE(a_receive_into_pinned_memory_waits_for_its_stream, 2)

Test(nccl_messages, batches_of_messages_between_all_bring_every_element)
{
    for (int size = 2; size <= 5; size++)
        run_of(BATCHES, "batches_of_messages_between_all_bring_every_element", size);
}

/* Newer versions of NCCL put each group on streams while the caller goes on; older ones only a communicator's first. */
Test(nccl_messages, batches_of_messages_go_on_while_nccl_puts_them_on_streams)
{
    static const char *const variables[] = {"STANDIN_NCCL_LATER_MS=10", "STANDIN_NCCL_FIRST_MS=0"};

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        run_with(BATCHES, "batches_of_messages_between_all_bring_every_element", 3, variables[i]);
        run_with(BATCHES, "a_batch_of_messages_meets_calls_one_by_one", 2, variables[i]);
        run_with(MESSAGES, "tags_and_any_source_match_messages_over_nccl", 3, variables[i]);
        run_with(MESSAGES, "messages_in_both_directions_go_over_nccl_beside_sums", 2, variables[i]);
    }
}

Test(nccl_messages, messages_to_several_ranks_that_are_ready_together_are_one_group)
{
    struct ranks *ranks = start_of(
        BATCHES, "messages_to_several_ranks_that_are_ready_together_are_one_group", 4, NULL, NULL);

    cr_assert(ranks_reach(ranks, 0, "posted"));
    usleep(400000); /* until all is offered */
    ranks_signal(ranks, 0, SIGSTOP);
    ranks_tell(ranks, RANKS_ALL, "receive");
    for (int r = 1; r < 4; r++)
        cr_expect(ranks_reach(ranks, r, "posted"));
    usleep(1500000); /* until they have agreed, on a busy machine, too */
    ranks_signal(ranks, 0, SIGCONT);
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    ranks_free(ranks);
}

Test(nccl_messages, a_rank_that_stood_still_takes_its_message_over_nccl)
{
    struct ranks *ranks =
        start_of(MESSAGES, "a_rank_that_stood_still_takes_its_message_over_nccl", 2, NULL, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "posted"));
    usleep(50000); /* until the receive has met its message */
    ranks_signal(ranks, 1, SIGSTOP);
    usleep(400000); /* a receive waits 200 ms for its stream */
    ranks_tell(ranks, 1, "receive");
    ranks_signal(ranks, 1, SIGCONT);
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    ranks_free(ranks);
}

/* The headers go by tcp. */
Test(nccl_messages, headers_of_messages_over_nccl_go_by_any_transport)
{
    const char *const env[] = {LIBRARIES, "TUTTI_BACKEND=cpu:tcp,cuda:nccl", NULL};
    const char *const names[] = {"messages_in_both_directions_go_over_nccl_beside_sums",
                                 "messages_over_nccl_that_are_cancelled_at_any_time_lose_nothing",
                                 "messages_between_gpus_and_host_memory_go_by_pinned_memory"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect(ranks_run(&(struct ranks_options){
            .program = MESSAGES, .case_name = names[i], .size = 2, .env = env}));
}

/* ---- failures, on rank 1 ---- */

#define SAME_WORDS(program, name, fault, more)                                                     \
    Test(nccl_messages, name)                                                                      \
    {                                                                                              \
        expect_same_words(start_of(program, #name, 3, fault, more), false);                        \
    }

SAME_WORDS(MESSAGES, a_message_over_nccl_that_does_not_end_times_out, "STANDIN_NCCL_HANGS_AT=1",
           NULL)
SAME_WORDS(MESSAGES, a_communicator_for_messages_that_is_never_made_times_out,
           "STANDIN_NCCL_JOIN=7", "STANDIN_NCCL_JOIN_AT=2")
SAME_WORDS(MESSAGES, an_error_of_a_message_over_nccl_is_told_to_all, "STANDIN_NCCL_ASYNC_AT=1",
           NULL)
SAME_WORDS(MESSAGES, an_abort_ends_a_message_over_nccl, "STANDIN_NCCL_HANGS_AT=1", NULL)
SAME_WORDS(BATCHES, a_batch_of_messages_that_does_not_end_times_out, "STANDIN_NCCL_HANGS_AT=1",
           NULL)
SAME_WORDS(BATCHES, an_error_of_a_batch_of_messages_is_told_to_all, "STANDIN_NCCL_ASYNC_AT=1", NULL)
SAME_WORDS(BATCHES, a_call_of_a_batch_of_messages_that_nccl_refuses_ends_it,
           "STANDIN_NCCL_FAILS_AT=2", "STANDIN_NCCL_JOIN_MS=500")

static void kill_while_running(const char *program, const char *name)
{
    struct ranks *ranks = start_of(program, name, 3, "STANDIN_NCCL_HANGS_AT=1", NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    usleep(300000); /* until it is on the streams */
    ranks_signal(ranks, 1, SIGKILL);
    expect_same_words(ranks, true);
}

Test(nccl_messages, a_rank_that_is_killed_in_a_message_over_nccl_ends_it)
{
    kill_while_running(MESSAGES, "a_rank_that_is_killed_in_a_message_over_nccl_ends_it");
}

Test(nccl_messages, a_rank_that_is_killed_in_a_batch_of_messages_ends_it)
{
    kill_while_running(BATCHES, "a_rank_that_is_killed_in_a_batch_of_messages_ends_it");
}
