/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of NCCL that the stand-in keeps, checked over the stand-in, or over a real NCCL on one GPU:
 * TUTTI_CUDA=libcuda.so.1 TUTTI_NCCL=libnccl.so.2 thread_nccl [PART-OF-A-NAME...]
 */
#include "nccl_ranks.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUstream stream(void)
{
    return driver_stream(CU_STREAM_NON_BLOCKING);
}

/* ---- results -------------------------------------------------------------------------------- */

static void check_reductions(CUstream s)
{
    enum { COUNT = 1001 };
    static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    static const float right[] = {6, 6, 3, 1, 2};
    float *in = ranks_memory(COUNT, (float)(rank + 1)), *out = ranks_memory(COUNT, -1);

    for (int i = 0; i < 5; i++) {
        FINE(nccl.ncclAllReduce(in, out, COUNT, ncclFloat32, ops[i], comm, s));
        CHECK(fabsf(ranks_float(out, 0) - right[i]) < 1e-5F);
        CHECK(fabsf(ranks_float(out, COUNT - 1) - right[i]) < 1e-5F);
    }
    FINE(nccl.ncclReduce(in, in, COUNT, ncclFloat32, ncclSum, 1, comm, s)); /* in place */
    CHECK(ranks_float(in, 500) == (rank == 1 ? 6.F : (float)(rank + 1)));
}

static void check_moves(CUstream s)
{
    float *one = ranks_memory(10, (float)rank), *all = ranks_memory(30, -1);
    float *sum = ranks_memory(10, -1);

    FINE(nccl.ncclAllGather(one, all, 10, ncclFloat32, comm, s));
    for (size_t r = 0; r < 3; r++)
        CHECK(ranks_float(all, 10 * r + 9) == (float)r);
    FINE(nccl.ncclReduceScatter(all, sum, 10, ncclFloat32, ncclSum, comm, s));
    CHECK(ranks_float(sum, 9) == (float)(3 * rank));
    FINE(nccl.ncclBroadcast(one, sum, 10, ncclFloat32, 2, comm, s));
    CHECK(ranks_float(sum, 9) == 2);
}

static void run_everything(void)
{
    CUstream s;

    ranks_make();
    s = stream();
    check_reductions(s);
    check_moves(s);
    ranks_end();
}

static void each_call_gives_its_result(void)
{
    ranks_run(3, run_everything);
}

static void fill(float *memory, unsigned bits)
{
    OK(cu.cuMemsetD32_v2(at(memory), bits, 4));
    OK(cu.cuCtxSynchronize());
}

/* Averages of integers are cut; 16-bit floats sum to what both have. */
static void run_types(void)
{
    CUstream s;
    float *memory;

    ranks_make();
    s = stream();
    memory = ranks_memory(4, 0);
    fill(memory, rank ? (unsigned)-4 : (unsigned)-3);
    FINE(nccl.ncclAllReduce(memory, memory, 4, ncclInt32, ncclAvg, comm, s));
    CHECK((int)driver_word(at(memory)) == -3);
    fill(memory, 0x3c003c00); /* f16 1, 1 */
    FINE(nccl.ncclAllReduce(memory, memory, 8, ncclFloat16, ncclSum, comm, s));
    CHECK(driver_word(at(memory)) == 0x40004000);
    fill(memory, 0x3f803f80); /* bf16 1, 1 */
    FINE(nccl.ncclAllReduce(memory, memory, 8, ncclBfloat16, ncclSum, comm, s));
    CHECK(driver_word(at(memory)) == 0x40004000);
    memory = ranks_memory(4, rank ? 1 : NAN);
    FINE(nccl.ncclAllReduce(memory, memory, 4, ncclFloat32, ncclMin, comm, s));
    CHECK(ranks_float(memory, 0) == 1);
    ranks_end();
}

static void types_round_and_min_drops_nan(void)
{
    ranks_run(2, run_types);
}

static void run_messages(void)
{
    const size_t count = 1 << 18; /* more than is on its way at once */
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    float *in, *out;
    CUstream s;

    ranks_make();
    s = stream();
    in = ranks_memory(count, (float)rank);
    out = ranks_memory(count, -1);
    FINE(nccl.ncclGroupStart());
    FINE(nccl.ncclSend(in, count, ncclFloat32, to, comm, s));
    FINE(nccl.ncclRecv(out, count, ncclFloat32, from, comm, s));
    FINE(nccl.ncclGroupEnd());
    CHECK(ranks_float(out, count - 1) == (float)from);
    if (rank == 0)
        FINE(nccl.ncclSend(in, 0, ncclFloat32, 1, comm, s));
    if (rank == 1)
        FINE(nccl.ncclRecv(out, 0, ncclFloat32, 0, comm, s));
    ranks_end();
}

static void messages_of_a_group_move_together(void)
{
    ranks_run(3, run_messages);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void run_held(void)
{
    float *memory;
    CUevent done;
    CUstream s;
    double begin;

    ranks_make();
    s = stream();
    memory = ranks_memory(16, 1);
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclMax, comm, s));
    OK(cu.cuStreamSynchronize(s));
    driver_hold(s);
    begin = ranks_now_ms();
    for (int i = 0; i < 100; i++)
        FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclMax, comm, s));
    printf("# rank %d: 100 calls behind a held stream: %.1f ms\n", rank, ranks_now_ms() - begin);
    done = driver_mark(s);
    CHECK(driver_is_held(done));
    driver_release();
    OK(cu.cuStreamSynchronize(s));
    CHECK(driver_is_reached(done));
    ranks_end();
}

static void calls_return_before_their_stream_comes_to_them(void)
{
    ranks_run(2, run_held);
}

static void run_streams(void)
{
    CUstream a, b;
    float *memory;

    ranks_make();
    a = stream();
    b = stream();
    memory = ranks_memory(16, 1);
    driver_hold(a);
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, a));
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, b));
    CHECK(driver_is_held(driver_mark(b))); /* in the order of the calls */
    driver_release();
    CHECK(ranks_float(memory, 0) == 4);
    ranks_end();
}

static void operations_of_two_streams_are_in_the_order_of_their_calls(void)
{
    ranks_run(2, run_streams);
}

/* ---- groups --------------------------------------------------------------------------------- */

static void run_refusals(void)
{
    float *memory;
    CUstream s;

    GIVES(nccl.ncclGroupEnd(), ncclInvalidUsage);
    GIVES(nccl.ncclAllReduce(NULL, NULL, 1, ncclFloat32, ncclSum, NULL, NULL), ncclInvalidArgument);
    ranks_make();
    s = stream();
    memory = ranks_memory(16, 1);
    GIVES(nccl.ncclBroadcast(memory, memory, 16, ncclFloat32, 2, comm, s), ncclInvalidArgument);
    CHECK(strstr(nccl.ncclGetLastError(comm), "root"));
    FINE(nccl.ncclGroupStart());
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s));
    GIVES(nccl.ncclBroadcast(memory, memory, 16, ncclFloat32, -1, comm, s), ncclInvalidArgument);
    GIVES(nccl.ncclGroupEnd(), ncclInvalidArgument);
    CHECK(ranks_float(memory, 0) == 1); /* nothing was launched */
    FINE(nccl.ncclAllReduce(memory, memory, 0, ncclFloat32, ncclSum, comm, s));
    ranks_end();
}

static void a_group_in_which_a_call_failed_does_nothing(void)
{
    ranks_run(1, run_refusals);
}

static void run_modes(void)
{
    ncclComm_t first;
    float *memory;

    ranks_make();
    first = comm;
    memory = ranks_memory(16, 1);
    ranks_renew_id();
    ranks_join(false);
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    FINE(nccl.ncclGroupStart());
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, first, NULL));
    nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, NULL);
    GIVES(nccl.ncclGroupEnd(), ncclInvalidArgument);
    FINE(nccl.ncclCommAbort(first));
    FINE(nccl.ncclCommAbort(comm));
}

static void a_group_has_communicators_of_one_mode(void)
{
    ranks_run(1, run_modes);
}

/* ---- making --------------------------------------------------------------------------------- */

static void run_in_progress(void)
{
    ncclResult_t first;
    float *memory;

    ranks_id();
    CHECK(rank == 1 || ranks_heard(1, 1, 20000));
    GIVES(ranks_join(false), ncclInProgress);
    if (rank == 1) {
        nccl.ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL);
        CHECK(strstr(nccl.ncclGetLastError(comm), "before the previous operation"));
        ranks_tell(1);
    }
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    memory = ranks_memory(16, 1);
    first = nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, stream());
    CHECK(first == ncclSuccess || first == ncclInProgress);
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    CHECK(ranks_float(memory, 0) == 2);
    nccl.ncclCommFinalize(comm);
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    FINE(nccl.ncclCommDestroy(comm));
}

static void a_non_blocking_communicator_is_made_while_others_wait(void)
{
    ranks_run(2, run_in_progress);
}

static void run_absent(void)
{
    double begin;

    ranks_id();
    if (rank == 1) {
        ranks_heard(0, 1, 20000);
        return;
    }
    GIVES(ranks_join(false), ncclInProgress);
    GIVES(ranks_result(comm, 300), ncclInProgress);
    begin = ranks_now_ms();
    FINE(nccl.ncclCommAbort(comm));
    CHECK(ranks_now_ms() - begin < 5000);
    ranks_tell(1);
}

static void a_member_that_does_not_join_is_waited_for_until_an_abort(void)
{
    ranks_run(2, run_absent);
}

static void run_duplicates(void)
{
    ranks_join(false);
    GIVES(ranks_result(comm, 20000), ncclInvalidUsage);
    CHECK(strstr(nccl.ncclGetLastError(comm), "Duplicate GPU"));
    ranks_meet();
    nccl.ncclCommAbort(comm);
}

static void two_members_with_one_gpu_are_refused(void)
{
    setenv("NCCL_HOSTID", "the same", 1);
    ranks_run(2, run_duplicates);
}

/* ---- failing -------------------------------------------------------------------------------- */

static void run_abort(void)
{
    float *memory;
    CUstream s;
    CUevent done;

    ranks_make();
    s = stream();
    memory = ranks_memory(16, 1);
    if (rank == 0) {
        FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s));
        done = driver_mark(s);
        CHECK(driver_is_held(done));
        FINE(nccl.ncclCommAbort(comm));
        CHECK(driver_is_reached(done)); /* with success */
        OK(cu.cuCtxSynchronize());
    }
    ranks_meet();
}

static void an_abort_lets_the_stream_go_on_without_an_error(void)
{
    ranks_run(2, run_abort);
}

static void run_dead(void)
{
    float *memory;
    CUstream s;

    ranks_make();
    s = stream();
    memory = ranks_memory(16, 1);
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s));
    OK(cu.cuCtxSynchronize());
    if (rank == 1) {
        ranks_tell(1);
        raise(SIGKILL);
    }
    CHECK(ranks_heard(1, 1, 10000));
    usleep(300000);
    GIVES(ranks_result(comm, 1), ncclSuccess); /* nothing is in flight */
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s));
    for (int i = 0; i < 300 && ranks_result(comm, 1) == ncclSuccess; i++)
        usleep(100000);
    GIVES(ranks_result(comm, 1), ncclRemoteError);
    FINE(nccl.ncclCommAbort(comm));
    CHECK(driver_is_reached(driver_mark(s)));
}

static void a_dead_member_is_noticed_by_operations_in_flight_alone(void)
{
    ranks_run(2, run_dead);
}

/* What both see within 2 s. */
static ncclResult_t differ(size_t count, bool is_broadcast)
{
    ncclResult_t result;
    float *memory;
    CUstream s;

    ranks_make();
    s = stream();
    memory = ranks_memory(1 << 20, 1);
    if (is_broadcast)
        FINE(nccl.ncclBroadcast(memory, memory, count, ncclFloat32, 1, comm, s));
    else
        FINE(nccl.ncclAllReduce(memory, memory, count, ncclFloat32, ncclSum, comm, s));
    for (int i = 0; i < 20 && ranks_result(comm, 1) == ncclSuccess; i++)
        usleep(100000);
    result = ranks_result(comm, 1);
    ranks_meet();
    FINE(nccl.ncclCommAbort(comm));
    CHECK(driver_is_reached(driver_mark(s)));
    return result;
}

static void run_counts(void)
{
    const ncclResult_t result = differ(rank ? 1 << 20 : 1000, false);

    printf("# rank %d: %d\n", rank, (int)result);
    CHECK(result == ncclSuccess || result == ncclInvalidUsage);
}

static void other_counts_are_an_error_on_one_side_at_most(void)
{
    ranks_run(2, run_counts);
}

static void run_operations(void)
{
    GIVES(differ(1000, rank == 1), ncclSuccess);
}

static void other_operations_wait_without_a_word(void)
{
    ranks_run(2, run_operations);
}

static void run_pageable(void)
{
    static float pageable[16];

    ranks_make();
    FINE(nccl.ncclAllReduce(pageable, pageable, 16, ncclFloat32, ncclSum, comm, stream()));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void pageable_memory_is_taken_and_faults(void)
{
    ranks_run(2, run_pageable);
}

static void run_misaligned(void)
{
    ranks_make();
    void *odd = (char *)ranks_memory(16, 1) + 1;

    FINE(nccl.ncclBroadcast(odd, odd, 8, ncclFloat32, 0, comm, stream()));
    OK(cu.cuCtxSynchronize());
    FINE(nccl.ncclAllReduce(odd, odd, 8, ncclFloat32, ncclSum, comm, stream()));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void misaligned_elements_are_moved_and_fault_in_reductions(void)
{
    ranks_run(2, run_misaligned);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void run_memory(void)
{
    ncclWindow_t window = NULL;
    void *memory = NULL;

    if (!nccl.ncclMemAlloc || !nccl.ncclCommWindowRegister)
        return;
    FINE(nccl.ncclMemAlloc(&memory, 1 << 21));
    ranks_make();
    FINE(nccl.ncclCommWindowRegister(comm, memory, 1 << 21, &window, 0));
    FINE(nccl.ncclAllReduce(memory, memory, 1 << 19, ncclFloat32, ncclSum, comm, stream()));
    OK(cu.cuCtxSynchronize());
    FINE(nccl.ncclCommWindowDeregister(comm, window));
    ranks_end();
    FINE(nccl.ncclMemFree(memory));
}

static void memory_can_be_registered(void)
{
    ranks_run(2, run_memory);
}

/* The second round is that in which a window would have left its mode. */
static void run_twice_registered(void)
{
    void *memory = NULL, *handle = NULL;

    if (!nccl.ncclMemAlloc || !nccl.ncclCommRegister)
        return;
    for (int round = 0; round < 2; round++) {
        ranks_join(false);
        GIVES(ranks_result(comm, 20000), ncclSuccess);
        FINE(nccl.ncclMemAlloc(&memory, 1 << 21));
        FINE(nccl.ncclCommRegister(comm, memory, 1 << 21, &handle));
        (void)nccl.ncclAllReduce(memory, memory, 1 << 19, ncclFloat32, ncclSum, comm, stream());
        GIVES(ranks_result(comm, 20000), ncclSuccess);
        OK(cu.cuCtxSynchronize());
        FINE(nccl.ncclCommDeregister(comm, handle));
        FINE(nccl.ncclMemFree(memory));
        (void)nccl.ncclCommFinalize(comm);
        GIVES(ranks_result(comm, 20000), ncclSuccess);
        FINE(nccl.ncclCommDestroy(comm));
        ranks_renew_id();
    }
}

static void memory_is_registered_with_non_blocking_communicators(void)
{
    ranks_run(2, run_twice_registered);
}

#define CASE(name) DRIVER_CASE(name, true, 0, NULL)

int main(int argc, char **argv)
{
    static const struct driver_case cases[] = {
        CASE(each_call_gives_its_result),
        CASE(types_round_and_min_drops_nan),
        CASE(messages_of_a_group_move_together),
        CASE(calls_return_before_their_stream_comes_to_them),
        CASE(operations_of_two_streams_are_in_the_order_of_their_calls),
        CASE(a_captured_call_replays),
        CASE(a_call_comes_after_a_graph_that_was_launched_before),
        CASE(streams_of_a_group_are_all_captured_or_none),
        CASE(a_communicator_ends_after_its_graphs),
        CASE(a_group_in_which_a_call_failed_does_nothing),
        CASE(a_group_has_communicators_of_one_mode),
        CASE(a_non_blocking_communicator_is_made_while_others_wait),
        CASE(a_member_that_does_not_join_is_waited_for_until_an_abort),
        CASE(two_members_with_one_gpu_are_refused),
        CASE(an_abort_lets_the_stream_go_on_without_an_error),
        CASE(a_dead_member_is_noticed_by_operations_in_flight_alone),
        CASE(other_counts_are_an_error_on_one_side_at_most),
        CASE(other_operations_wait_without_a_word),
        CASE(pageable_memory_is_taken_and_faults),
        CASE(misaligned_elements_are_moved_and_fault_in_reductions),
        CASE(memory_can_be_registered),
        CASE(memory_is_registered_with_non_blocking_communicators),
    };

    if (!ranks_have_library()) {
        printf("1..0 # SKIP there is no %s\n", getenv("TUTTI_NCCL"));
        return 77;
    }
    return driver_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
