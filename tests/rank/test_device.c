/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on GPUs, on the stand-in for the driver: over each host backend, and by a way of their own. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness/launch.h"

TestSuite(device, .timeout = 200);

static void run(const char *program, const char *name, int size, const char *backends,
                const char *choice)
{
    char backend[64] = "";
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "STANDIN_CUDA_DEVICES=2",
                               *choice ? backend : NULL, NULL};
    struct ranks_options options = {
        .program = program, .case_name = name, .size = size, .backend = backends, .env = env};

    snprintf(backend, sizeof backend, "TUTTI_BACKEND=%s", choice);
    cr_expect(ranks_run(&options));
}

#define CASE(name, size)                                                                           \
    Test(device, name)                                                                             \
    {                                                                                              \
        run("rank_device", #name, size, "shm,tcp", "");                                            \
    }
#define CHOICE(name, size, words)                                                                  \
    Test(device, name##_by_choice)                                                                 \
    {                                                                                              \
        run("rank_device", #name, size, NULL, words);                                              \
    }

CASE(an_all_reduce_of_tensors_on_gpus_gives_the_sum, 3)
CASE(a_work_is_complete_when_the_result_is_on_the_gpu, 2)
CASE(a_tensor_that_a_stream_writes_late_gives_the_right_sum, 3)
CASE(a_work_starts_at_once_while_its_stream_is_held, 2)

#define LATE_OVER(engine, plugin, mpi_)                                                            \
    Test(device, what_a_late_stream_writes_is_in_the_sum_over_##engine)                            \
    {                                                                                              \
        if (ranks_lack(#engine))                                                                   \
            cr_skip_test("%s", ranks_lack(#engine));                                               \
        static const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, NULL};                 \
        cr_expect(ranks_run(&(struct ranks_options){                                               \
            .program = "rank_device",                                                              \
            .case_name = "a_tensor_that_a_stream_writes_late_gives_the_right_sum",                 \
            .size = 2,                                                                             \
            .backend = plugin,                                                                     \
            .mpi = mpi_,                                                                           \
            .env = env}));                                                                         \
    }
LATE_OVER(gloo, "gloo", NULL)
LATE_OVER(openmpi, "mpi", "openmpi")
LATE_OVER(mpich, "mpi", "mpich")
LATE_OVER(ucx, "ucx", NULL)
LATE_OVER(ucc, "ucc", NULL)

CASE(a_stream_waits_for_a_work_and_the_host_does_not, 3)
CASE(the_gpu_that_a_rank_names_is_used, 2)
CASE(gpu_and_host_tensors_meet_in_one_call, 2)
CASE(blocks_lists_and_strides_on_gpus_are_moved, 3)
CASE(messages_between_gpus_keep_their_order_while_a_stream_is_held, 2)
CASE(a_batch_and_messages_to_oneself_take_gpu_tensors, 3)
CASE(premultiplied_sums_take_gpu_tensors_and_gpu_factors, 2)
CASE(records_and_dumps_tell_the_gpu_and_the_stream_that_is_late, 2)
CASE(what_cannot_be_done_with_a_gpu_is_refused_in_words, 3)
CHOICE(an_all_reduce_of_tensors_on_gpus_gives_the_sum, 2, "cuda:local=shm,remote=tcp")
CHOICE(blocks_lists_and_strides_on_gpus_are_moved, 3, "cpu:tcp,cuda:auto")
CHOICE(messages_between_gpus_keep_their_order_while_a_stream_is_held, 2, "cpu:auto,cuda:tcp")
CHOICE(gpu_and_host_tensors_that_go_different_ways_are_a_mismatch, 3, "cpu:auto,cuda:tcp")
CHOICE(gpu_and_host_tensors_meet_in_one_call, 3, "cpu:shm,cuda:shm")

Test(device, a_programs_own_current_context_stays_after_each_call)
{
    run("rank_device_context", "a_programs_own_current_context_stays_after_each_call", 2, "shm,tcp",
        "");
}

/* ---- which GPU a rank has ---- */

Test(device, groups_made_from_the_world_use_its_gpu)
{
    run("rank_device_groups", "groups_made_from_the_world_use_its_gpu", 4, "shm", "");
    run("rank_device_groups", "groups_made_from_the_world_use_its_gpu", 4, NULL, "cuda:tcp");
}

Test(device, memory_that_a_gpu_uses_cannot_be_registered)
{
    run("rank_device_groups", "memory_that_a_gpu_uses_cannot_be_registered", 2, "shm", "");
}

Test(device, without_a_driver_a_gpu_tensor_is_refused_and_the_group_goes_on)
{
    run("rank_device_refused", "without_a_driver_a_gpu_tensor_is_refused_and_the_group_goes_on", 2,
        "shm", "");
}

Test(device, a_rank_without_a_driver_is_named_to_all_where_gpus_are_asked_for)
{
    run("rank_device_refused", "a_rank_without_a_driver_is_named_to_all_where_gpus_are_asked_for",
        3, NULL, "cuda:shm");
}

Test(device, a_forked_child_is_refused_the_gpu_and_its_parent_goes_on)
{
    run("rank_device_refused", "a_forked_child_is_refused_the_gpu_and_its_parent_goes_on", 2,
        "shm,tcp", "");
}

Test(device, a_trace_tells_calls_whose_tensors_are_on_a_gpu)
{
    run("rank_device_groups", "a_trace_tells_calls_whose_tensors_are_on_a_gpu", 2, "shm", "");
}

/* Four ranks see `devices`; one says all of the words, of which a NULL ends the list. */
static void expect_gpus(const char *devices, int rank, const char *const *words)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, devices, "TUTTI_DEVICE=cuda",
                               "TUTTI_DEBUG=INFO", NULL};
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_device_groups",
                                            .case_name = "groups_made_from_the_world_use_its_gpu",
                                            .size = 4,
                                            .backend = "shm",
                                            .env = env});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    for (; *words; words++)
        cr_expect(strstr(ranks_result(ranks, rank)->err, *words), "no «%s» in: %s", *words,
                  ranks_result(ranks, rank)->err);
    ranks_free(ranks);
}

#define UUID(n) "GPU-74757474-6920-7374-616e-642d696e20" n

Test(device, members_tell_each_other_which_gpus_they_have)
{
    static const char *const all[] = {
        "group world: devices: rank 0 cuda:0 " UUID("00") ", rank 1 cuda:1 " UUID(
            "01") ", rank 2 cuda:2 " UUID("02") ", rank 3 cuda:3 " UUID("03") "\n",
        NULL};
    static const char *const turned[] = {
        "group world{3,0}: devices: rank 0 cuda:3 " UUID("03") ", rank 1 cuda:0 " UUID("00") "\n",
        NULL};
    static const char *const shared[] = {"rank 3 cuda:1 " UUID("01") "\n",
                                         "ranks 0 and 2 share the device " UUID("00"), NULL};

    expect_gpus("STANDIN_CUDA_DEVICES=4", 0, all);
    expect_gpus("STANDIN_CUDA_DEVICES=4", 3, turned);
    expect_gpus("STANDIN_CUDA_DEVICES=2", 0, shared);
}

/* ---- long tensors ---- */

/* `setting`: of the environment. */
static void run_long(const char *name, int size, const char *backends, const char *setting)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, setting, NULL};

    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_device_long",
                                                .case_name = name,
                                                .size = size,
                                                .backend = backends,
                                                .env = env}));
}

#define TWO_GPUS "STANDIN_CUDA_DEVICES=2"

Test(device, long_tensors_on_gpus_get_the_bits_of_host_tensors)
{
    run_long("long_tensors_on_gpus_get_the_bits_of_host_tensors", 2, "shm,tcp", TWO_GPUS);
    run_long("long_tensors_on_gpus_get_the_bits_of_host_tensors", 3, "shm,tcp", TWO_GPUS);
}

Test(device, long_tensors_of_gpus_and_hosts_meet)
{
    run_long("long_tensors_of_gpus_and_hosts_meet", 3, "shm,tcp", TWO_GPUS);
}

Test(device, long_tensors_with_strides_are_moved_in_pieces)
{
    run_long("long_tensors_with_strides_are_moved_in_pieces", 2, "shm,tcp", TWO_GPUS);
}

Test(device, calls_wait_for_pinned_memory_that_others_use)
{
    run_long("calls_wait_for_pinned_memory_that_others_use", 2, "shm", "TUTTI_PINNED_MIB=4");
}

Test(device, a_call_that_waits_for_pinned_memory_hears_of_a_lost_gpu)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "STANDIN_CUDA_SLOW_MIBS=1",
                               "TUTTI_PINNED_MIB=4", NULL};

    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_device_long",
        .case_name = "a_call_that_waits_for_pinned_memory_hears_of_a_lost_gpu",
        .size = 2,
        .backend = "shm",
        .env = env}));
}

Test(device, more_streams_than_queues_wait_for_a_work)
{
    run_long("more_streams_than_queues_wait_for_a_work", 2, "shm", "CUDA_DEVICE_MAX_CONNECTIONS=8");
}

Test(device, kernels_are_loaded_once_no_stream_waits_for_a_work)
{
    run_long("kernels_are_loaded_once_no_stream_waits_for_a_work", 2, "shm,tcp", "");
}

/* ---- messages and plans ---- */

#define CASE_OF(program, name, size)                                                               \
    Test(device, name)                                                                             \
    {                                                                                              \
        run(program, #name, size, "shm,tcp", "");                                                  \
    }
#define MESSAGES(name, size) CASE_OF("rank_device_messages", name, size)
#define PLANS(name, size) CASE_OF("rank_device_plans", name, size)

MESSAGES(long_messages_between_gpus_and_hosts_bring_every_element, 3)
MESSAGES(long_messages_with_strides_and_to_oneself_are_right, 2)
MESSAGES(a_shorter_message_leaves_the_rest_of_a_gpu_tensor_as_it_is, 2)
MESSAGES(a_receive_into_pinned_memory_waits_for_its_stream, 2)
PLANS(a_plan_runs_again_with_what_its_gpu_tensors_hold, 3)
PLANS(a_plan_of_several_calls_with_gpu_tensors_runs_again, 3)
PLANS(a_plan_that_runs_still_is_busy_and_may_be_freed, 2)

/* ---- failures ---- */

CASE(no_stream_waits_for_ever_when_a_rank_aborts, 3)
CASE(no_stream_waits_for_ever_when_a_rank_never_calls, 2)
CASE(a_stream_that_never_comes_to_the_call_is_a_time_out, 2)

/* The signal goes when the streams of the others wait. */
static void lose_a_rank(const char *backend)
{
    static const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, NULL};
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = "rank_device",
                                .case_name = "no_stream_waits_for_ever_when_a_rank_is_lost",
                                .size = 3,
                                .backend = backend,
                                .env = env});

    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    ranks_signal(ranks, 1, SIGKILL);
    for (int r = 0; r < 3; r += 2) {
        cr_expect(ranks_wait_rank(ranks, r));
        cr_expect(ranks_result(ranks, r)->passed, "%s", ranks_result(ranks, r)->out);
    }
    ranks_free(ranks);
}

Test(device, no_stream_waits_for_ever_when_a_rank_is_killed)
{
    lose_a_rank("shm");
    lose_a_rank("tcp");
}

/* Rank 1 of three does not pass; the others do, and hear the same. */
static void lose(const char *program, const char *case_name, const char *backend,
                 const char *setting)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, setting, NULL};
    char words[2][512] = {"", ""};
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = program, .case_name = case_name, .size = 3, .backend = backend, .env = env});

    cr_assert_not_null(ranks);
    for (int r = 0; r < 3; r += 2) {
        cr_expect(ranks_wait_rank(ranks, r));
        cr_expect(ranks_result(ranks, r)->passed, "%s", ranks_result(ranks, r)->out);
        cr_expect(ranks_value(ranks, r, "words", words[r / 2], sizeof words[0]));
    }
    cr_expect_str_eq(words[0], words[1]);
    ranks_free(ranks);
}

#define LOSE(name, program, setting)                                                               \
    Test(device, name)                                                                             \
    {                                                                                              \
        lose(program, #name, "shm", setting);                                                      \
        lose(program, #name, "tcp", setting);                                                      \
    }

LOSE(a_rank_that_is_killed_in_an_all_reduce_ends_it_on_all, "rank_device_long", NULL)
LOSE(no_stream_waits_for_ever_when_a_rank_is_stopped, "rank_device_long", NULL)
LOSE(a_rank_that_is_killed_in_a_long_message_ends_it_on_all, "rank_device_messages",
     "STANDIN_CUDA_SLOW_MIBS=8")
LOSE(a_rank_that_stops_in_a_long_message_ends_it_on_all, "rank_device_messages",
     "STANDIN_CUDA_SLOW_MIBS=8")
LOSE(a_rank_that_aborts_in_a_long_message_ends_it_on_all, "rank_device_messages",
     "STANDIN_CUDA_SLOW_MIBS=8")

/* Of rank 0, which sends, or rank 1. */
Test(device, a_gpu_that_is_lost_in_a_long_message_is_told_to_both)
{
    for (int at = 2; at < 8; at++) {
        char lost[40], rank[40];
        const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, TWO_GPUS, lost, rank, NULL};

        snprintf(lost, sizeof lost, "STANDIN_CUDA_LOST_AT=%d", at);
        snprintf(rank, sizeof rank, "STANDIN_CUDA_FAULT_RANK=%d", at % 2);
        cr_expect(ranks_run(&(struct ranks_options){
            .program = "rank_device_messages",
            .case_name = "a_gpu_that_is_lost_in_a_long_message_is_told_to_both",
            .size = 2,
            .backend = at < 5 ? "shm" : "tcp",
            .env = env}));
    }
}

/* The device of rank 1 is lost at its 40th and later operations. */
Test(device, a_lost_gpu_is_told_to_all_in_the_drivers_words)
{
    for (int at = 40; at < 46; at++) {
        char lost[40];
        const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "STANDIN_CUDA_DEVICES=2",
                                   "STANDIN_CUDA_FAULT_RANK=1", lost, NULL};

        snprintf(lost, sizeof lost, "STANDIN_CUDA_LOST_AT=%d", at);
        cr_expect(ranks_run(
            &(struct ranks_options){.program = "rank_device",
                                    .case_name = "a_lost_gpu_is_told_to_all_in_the_drivers_words",
                                    .size = 2,
                                    .backend = at % 2 ? "shm" : "tcp",
                                    .env = env}));
    }
}
