/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on GPUs over NCCL, on the stand-ins of both libraries. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch.h"
#include "same_words.h"

TestSuite(nccl, .timeout = 120);

static const char *const eight_gpus[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA,
                                         "TUTTI_NCCL=" TUTTI_STANDIN_NCCL, "STANDIN_CUDA_DEVICES=8",
                                         "TUTTI_BACKEND=cpu:auto,cuda:nccl", NULL};

static void run_of(const char *program, const char *name, int size)
{
    cr_expect(ranks_run(&(struct ranks_options){
        .program = program, .case_name = name, .size = size, .env = eight_gpus}));
}

#define CASE(name, size)                                                                           \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        run_of("rank_nccl", #name, size);                                                          \
    }
#define BATCH_CASE(name, size)                                                                     \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        run_of("rank_nccl_batch", #name, size);                                                    \
    }
#define CAPTURE_CASE(name, size)                                                                   \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        run_of("rank_nccl_capture", #name, size);                                                  \
    }
#define ALIGNMENT_CASE(name, size)                                                                 \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        run_of("rank_nccl_alignment", #name, size);                                                \
    }
/* What tensors on GPUs do over any backend. */
#define DEVICE_CASE(name, size)                                                                    \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        run_of("rank_device", #name, size);                                                        \
    }

CASE(a_call_over_nccl_returns_while_its_stream_is_held, 2)
CASE(blocks_of_different_sizes_go_over_nccl, 3)
CASE(what_kernels_do_not_do_either_goes_by_the_host, 3)
BATCH_CASE(a_waiting_batch_returns_while_its_stream_is_held, 2)
BATCH_CASE(a_batch_over_nccl_is_one_launch, 3)
BATCH_CASE(a_call_of_a_batch_over_nccl_may_need_the_result_of_another, 3)
BATCH_CASE(a_batch_over_nccl_has_calls_of_two_streams_and_of_strided_tensors, 3)
BATCH_CASE(a_stream_waits_for_a_batch_and_the_host_does_not, 2)
CASE(another_stream_waits_for_a_call_that_is_waited_for_next, 2)
CASE(a_call_on_a_held_stream_is_running_in_the_record, 2)

/* With more variables, up to the NULL. */
static void run_with(const char *name, int size, const char *const *variables)
{
    const char *env[16] = {NULL};
    size_t count = 0;

    for (const char *const *from = eight_gpus; *from; from++)
        env[count++] = *from;
    for (; *variables; variables++)
        env[count++] = *variables;
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_nccl", .case_name = name, .size = size, .env = env}));
}

/* The stand-in of such a version dies where a call would overwrite the state of another. */
Test(nccl, calls_of_several_groups_may_be_in_progress)
{
    static const char *const versions[] = {"STANDIN_NCCL_VERSION=22605",
                                           "STANDIN_NCCL_VERSION=22703"};

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        run_with("calls_of_several_groups_may_be_in_progress", 3,
                 (const char *const[]){"STANDIN_NCCL_JOIN_MS=10", "STANDIN_NCCL_FIRST_MS=20",
                                       "STANDIN_NCCL_LATER_MS=1", versions[i], NULL});
}

Test(nccl, a_stream_may_be_destroyed_after_an_abort_that_goes_on)
{
    run_with(
        "a_stream_may_be_destroyed_after_an_abort_that_goes_on", 2,
        (const char *const[]){"STANDIN_NCCL_FIRST_MS=1000", "STANDIN_NCCL_ABORT_MS=200", NULL});
}

static long long value_of(const struct ranks *ranks, int rank, const char *name)
{
    char words[32] = "-1";

    cr_expect(ranks_value(ranks, rank, name, words, sizeof words));
    return atoll(words);
}

/* On a free machine it takes 20 ms. A rank that has to wait for a CPU gets that time in addition. */
Test(nccl, a_thousand_calls_are_issued_while_their_stream_is_held)
{
    const long long most_us = ranks_have_instruments() ? 2000000 : 50000;
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_nccl",
        .case_name = "a_thousand_calls_are_issued_while_their_stream_is_held",
        .size = 2,
        .env = eight_gpus});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    for (int r = 0; r < 2; r++) {
        const long long issued_us = value_of(ranks, r, "issued_us");
        const long long cpu_us = value_of(ranks, r, "cpu_us");
        const long long withheld_us =
            1000 * ranks_withheld_ms(ranks, ranks_point_ns(ranks, r, "issues"),
                                     ranks_point_ns(ranks, r, "issued"));

        fprintf(stderr,
                "rank %d issued 1,000 calls in %.1f ms, with %.1f ms of CPU; the machine withheld "
                "%.1f ms\n",
                r, (double)issued_us / 1e3, (double)cpu_us / 1e3, (double)withheld_us / 1e3);
        cr_expect(cpu_us >= 0 && cpu_us <= most_us);
        cr_expect_leq(issued_us, most_us + withheld_us);
    }
    ranks_free(ranks);
}

CAPTURE_CASE(a_captured_all_reduce_runs_with_its_graph, 3)
CAPTURE_CASE(a_graph_has_several_calls_and_a_batch, 3)
CAPTURE_CASE(graphs_and_other_calls_take_turns, 2)
CAPTURE_CASE(a_captured_work_says_so_and_orders_streams_of_its_graph, 2)
CAPTURE_CASE(a_captured_batch_has_calls_of_two_streams, 3)
CAPTURE_CASE(what_cannot_be_captured_is_refused_and_the_capture_goes_on, 2)
CAPTURE_CASE(a_plan_runs_in_a_capture_and_outside, 2)
CAPTURE_CASE(a_capture_in_a_group_of_one_is_refused, 1)
CAPTURE_CASE(a_group_may_end_before_its_graph, 2)
CAPTURE_CASE(a_process_may_end_with_a_graph, 2)
CAPTURE_CASE(an_abort_ends_a_replay_that_waits, 3)

ALIGNMENT_CASE(reductions_over_nccl_take_addresses_of_any_alignment, 4)
ALIGNMENT_CASE(one_rank_alone_has_a_misaligned_tensor_over_nccl, 3)
ALIGNMENT_CASE(moves_over_nccl_and_kernels_take_misaligned_tensors_as_they_lie, 3)
ALIGNMENT_CASE(captures_and_plans_refuse_misaligned_tensors_over_nccl, 2)

Test(nccl, every_collective_over_nccl_gives_its_result)
{
    for (int size = 1; size <= 4; size++)
        run_of("rank_nccl", "every_collective_over_nccl_gives_its_result", size);
}

/* ---- other backends for host memory ---- */

static void run_beside(const char *host, const char *mpi, const char *name)
{
    char backend[48], barrier[48];
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA,
                               "TUTTI_NCCL=" TUTTI_STANDIN_NCCL,
                               "STANDIN_CUDA_DEVICES=8",
                               backend,
                               barrier,
                               NULL};

    snprintf(backend, sizeof backend, "TUTTI_BACKEND=cpu:%s,cuda:nccl", host);
    snprintf(barrier, sizeof barrier, "BARRIER_BY=%s barrier_native", host);
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_nccl", .case_name = name, .size = 3, .env = env, .mpi = mpi}));
}

#define BESIDE(engine, host, mpi, name)                                                            \
    Test(nccl, name##_beside_##engine)                                                             \
    {                                                                                              \
        if (ranks_lack(#engine))                                                                   \
            cr_skip_test("%s", ranks_lack(#engine));                                               \
        run_beside(host, mpi, #name);                                                              \
    }

BESIDE(gloo, "gloo", NULL, every_collective_over_nccl_gives_its_result)
BESIDE(openmpi, "mpi", "openmpi", every_collective_over_nccl_gives_its_result)
BESIDE(mpich, "mpi", "mpich", every_collective_over_nccl_gives_its_result)
BESIDE(ucc, "ucc", NULL, a_backend_without_messages_beside_nccl_is_refused_in_words)

/* ---- what tensors on GPUs do over any backend ---- */

DEVICE_CASE(an_all_reduce_of_tensors_on_gpus_gives_the_sum, 3)
DEVICE_CASE(a_work_is_complete_when_the_result_is_on_the_gpu, 2)
DEVICE_CASE(a_tensor_that_a_stream_writes_late_gives_the_right_sum, 3)
DEVICE_CASE(a_work_starts_at_once_while_its_stream_is_held, 2)
DEVICE_CASE(a_stream_waits_for_a_work_and_the_host_does_not, 3)
DEVICE_CASE(the_gpu_that_a_rank_names_is_used, 2)
DEVICE_CASE(blocks_lists_and_strides_on_gpus_are_moved, 3)
DEVICE_CASE(messages_between_gpus_keep_their_order_while_a_stream_is_held, 2)
DEVICE_CASE(a_batch_and_messages_to_oneself_take_gpu_tensors, 3)
DEVICE_CASE(premultiplied_sums_take_gpu_tensors_and_gpu_factors, 2)
DEVICE_CASE(what_cannot_be_done_with_a_gpu_is_refused_in_words, 3)

Test(nccl, groups_made_from_the_world_use_its_gpu)
{
    run_of("rank_device_groups", "groups_made_from_the_world_use_its_gpu", 4);
}

Test(nccl, a_trace_tells_calls_whose_tensors_are_on_a_gpu)
{
    run_of("rank_device_groups", "a_trace_tells_calls_whose_tensors_are_on_a_gpu", 2);
}

/* ---- making a group ---- */

CASE(two_ranks_with_one_gpu_are_named, 2)
CASE(a_rank_without_nccl_is_named_by_all, 3)
CASE(a_rank_with_blocking_functions_of_nccl_is_named_by_all, 3)
CASE(another_patch_of_nccl_is_named_by_all, 3)
CASE(settings_of_nccl_that_differ_are_named_by_all, 3)

/* ---- auto ---- */

CASE(auto_takes_nccl_where_each_rank_names_its_gpu, 3)
CASE(auto_does_without_nccl_where_no_rank_names_a_gpu, 2)
CASE(a_group_has_nccl_by_a_choice_of_its_own, 2)

/* Rank 0 says once what is missing, and on which rank. */
#define WARNS(name, words)                                                                         \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        struct ranks *ranks = ranks_start(&(struct ranks_options){                                 \
            .program = "rank_nccl", .case_name = #name, .size = 3, .env = eight_gpus});            \
                                                                                                   \
        cr_assert_not_null(ranks);                                                                 \
        cr_expect(ranks_wait(ranks));                                                              \
        for (int r = 0; r < 3; r++) {                                                              \
            const char *said = ranks_result(ranks, r)->err, *at = strstr(said, words);             \
                                                                                                   \
            cr_expect(ranks_result(ranks, r)->passed, "%d: %s", r, said);                          \
            cr_expect(!at == (r > 0), "%d: %s", r, said);                                          \
            cr_expect(!at || !strstr(at + 1, "pinned"), "%d: %s", r, said);                        \
        }                                                                                          \
        ranks_free(ranks);                                                                         \
    }

WARNS(auto_does_without_nccl_where_a_rank_names_no_gpu,
      "not by nccl: rank 2: it has named no device")
WARNS(auto_does_without_nccl_where_a_rank_lacks_it, "not by nccl: rank 1: ")
WARNS(auto_does_without_nccl_where_its_versions_differ, "2.28.7")
WARNS(auto_does_without_nccl_where_ranks_share_a_gpu, "not by nccl: ranks 0 and 1 share the device")

/* A fault of rank 1 alone. */
static struct ranks *start_of(const char *program, const char *name, const char *fault)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA,
                               "TUTTI_NCCL=" TUTTI_STANDIN_NCCL,
                               "STANDIN_CUDA_DEVICES=8",
                               "TUTTI_BACKEND=cpu:auto,cuda:nccl",
                               "STANDIN_NCCL_FAULT_RANK=1",
                               fault,
                               NULL};
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = program, .case_name = name, .size = 3, .env = env});

    cr_assert_not_null(ranks);
    return ranks;
}

#define SAME_WORDS(name, fault)                                                                    \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        expect_same_words(start_of("rank_nccl", #name, fault), false);                             \
    }
#define BATCH_SAME_WORDS(name, fault)                                                              \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        expect_same_words(start_of("rank_nccl_batch", #name, fault), false);                       \
    }
#define CAPTURE_SAME_WORDS(name, fault)                                                            \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        expect_same_words(start_of("rank_nccl_capture", #name, fault), false);                     \
    }

SAME_WORDS(a_rank_that_never_joins_is_waited_for_until_the_deadline, "STANDIN_NCCL_JOIN=7")

/* ---- what NCCL reads and says ---- */

/* Two ranks with up to two more variables, or NULL. */
static struct ranks *start_saying_with(const char *named, const char *more)
{
    const char *const env[] = {"TUTTI_CUDA=" TUTTI_STANDIN_CUDA,
                               "TUTTI_NCCL=" TUTTI_STANDIN_NCCL,
                               "STANDIN_CUDA_DEVICES=8",
                               "TUTTI_BACKEND=cpu:auto,cuda:nccl",
                               "TUTTI_DEBUG=INFO",
                               "NCCL_DEBUG=INFO",
                               named ? named : more,
                               named ? more : NULL,
                               NULL};
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = "rank_nccl",
                                .case_name = "the_environment_is_as_before_when_a_group_is_made",
                                .size = 2,
                                .env = env});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    return ranks;
}

static struct ranks *start_saying(const char *named)
{
    return start_saying_with(named, NULL);
}

static void expect_lines(struct ranks *ranks, const char *first, const char *second)
{
    for (int r = 0; r < 2; r++) {
        const struct rank_result *result = ranks_result(ranks, r);

        cr_expect(result->passed, "%d: %s", r, result->out);
        cr_expect_null(strstr(result->out, "NCCL"), "%d: %s", r, result->out);
        cr_expect(strstr(result->err, first), "%d: %s", r, result->err);
        cr_expect(strstr(result->err, second), "%d: %s", r, result->err);
    }
    ranks_free(ranks);
}

Test(nccl, its_sockets_are_on_the_interface_of_the_job)
{
    expect_lines(start_saying(NULL), "info: nccl: Bootstrap : Using =lo\n",
                 "info: nccl: NET/Socket : Using =lo\n");
}

Test(nccl, the_interface_that_a_user_names_for_it_stays)
{
    expect_lines(start_saying("NCCL_SOCKET_IFNAME=other"), "nccl: Bootstrap : Using other\n",
                 "nccl: NET/Socket : Using other\n");
}

/* A file of the test's own; the caller removes it. */
static void write_file(char path[static 32], const char *words)
{
    strcpy(path, "/tmp/tutti-nccl-XXXXXX");
    const int fd = mkstemp(path);

    cr_assert(fd >= 0 && write(fd, words, strlen(words)) == (ssize_t)strlen(words));
    close(fd);
}

/* The stand-in reads no files, and finds no name where one sets it. */
Test(nccl, the_interface_of_a_file_nccl_conf_stays)
{
    char path[32], variable[64];

    write_file(path, "# ours\nNCCL_SOCKET_IFNAME=other\n");
    snprintf(variable, sizeof variable, "NCCL_CONF_FILE=%s", path);
    expect_lines(start_saying(variable), "nccl: Bootstrap : Using any interface\n",
                 "nccl: NET/Socket : Using any interface\n");
    expect_lines(start_saying_with(variable, "STANDIN_NCCL_VERSION=22205"),
                 "nccl: Bootstrap : Using =lo\n", "nccl: NET/Socket : Using =lo\n");
    unlink(path);
}

/* A user's home has no such file in the user database of a test machine. */
Test(nccl, the_file_nccl_conf_in_home_is_read_from_2_30_on)
{
    char folder[] = "/tmp/tutti-home-XXXXXX", path[64], variable[64];

    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/.nccl.conf", folder);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs("NCCL_SOCKET_IFNAME=other\r\n", file) >= 0 && !fclose(file));
    snprintf(variable, sizeof variable, "HOME=%s", folder);
    expect_lines(start_saying(variable), "nccl: Bootstrap : Using =lo\n",
                 "nccl: NET/Socket : Using =lo\n");
    expect_lines(start_saying_with(variable, "STANDIN_NCCL_VERSION=23007"),
                 "nccl: Bootstrap : Using any interface\n",
                 "nccl: NET/Socket : Using any interface\n");
    unlink(path);
    rmdir(folder);
}

Test(nccl, its_lines_are_in_the_file_that_a_user_names)
{
    char path[32], variable[64], said[512] = "";

    write_file(path, "");
    snprintf(variable, sizeof variable, "NCCL_DEBUG_FILE=%s", path);
    struct ranks *ranks = start_saying(variable);
    FILE *file = fopen(path, "re");
    cr_assert(file && fread(said, 1, sizeof said - 1, file) > 0);
    fclose(file);
    cr_expect(strstr(said, "NCCL INFO Bootstrap : Using =lo"), "%s", said);
    cr_expect_null(strstr(ranks_result(ranks, 0)->err, "Bootstrap"));
    ranks_free(ranks);
    unlink(path);
}

Test(nccl, a_rank_whose_nccl_fails_is_told_in_its_words)
{
    struct ranks *ranks = start_of("rank_nccl", "a_rank_whose_nccl_fails_is_told_in_its_words",
                                   "STANDIN_NCCL_JOIN=1");

    cr_expect(ranks_wait(ranks));
    const char *said = ranks_result(ranks, 1)->err;
    cr_expect(strstr(said, "tutti[1] warning: nccl: the fault of this stand-in's variables\n"),
              "%s", said);
    expect_same_words(ranks, false);
}

/* ---- failures ---- */

SAME_WORDS(members_with_host_and_gpu_memory_over_nccl_are_a_mismatch, NULL)
SAME_WORDS(other_counts_over_nccl_are_a_mismatch, NULL)
SAME_WORDS(other_operations_over_nccl_are_a_mismatch, NULL)
BATCH_SAME_WORDS(batches_over_nccl_that_differ_are_a_mismatch, NULL)
BATCH_SAME_WORDS(an_error_inside_of_a_batch_is_told_to_all, "STANDIN_NCCL_FAILS_AT=2")
SAME_WORDS(an_error_that_comes_late_is_told_to_all, "STANDIN_NCCL_ASYNC_AT=2")
CAPTURE_SAME_WORDS(members_that_capture_other_calls_are_a_mismatch, NULL)
CAPTURE_SAME_WORDS(a_member_that_does_not_capture_is_a_mismatch, NULL)
CAPTURE_SAME_WORDS(an_error_in_a_replay_is_told_to_all, "STANDIN_NCCL_ASYNC_AT=2")
DEVICE_CASE(no_stream_waits_for_ever_when_a_rank_aborts, 3)
DEVICE_CASE(no_stream_waits_for_ever_when_a_rank_never_calls, 2)

#define KILLED(program, name)                                                                      \
    Test(nccl, name)                                                                               \
    {                                                                                              \
        struct ranks *ranks = start_of(program, #name, NULL);                                      \
                                                                                                   \
        kill_rank_1(ranks);                                                                        \
        expect_same_words(ranks, true);                                                            \
    }

KILLED("rank_nccl", a_rank_that_is_killed_ends_an_issued_call)
KILLED("rank_nccl_batch", a_rank_that_is_killed_ends_an_issued_batch)
KILLED("rank_nccl_capture", a_rank_that_is_killed_ends_a_replay)
