/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in adds to NCCL's rules: its faults, and the end of a process that breaks a rule.
 */
#include "nccl_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUstream stream;
static float *memory;

static void make(void)
{
    ranks_make();
    stream = driver_stream(CU_STREAM_NON_BLOCKING);
    memory = ranks_memory(16, 1);
}

static ncclResult_t sum(void)
{
    return nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, stream);
}

/* The others wait until rank 0 has seen what there was to see. */
static void wait_for_rank_0(void)
{
    if (rank == 0)
        ranks_tell(1);
    CHECK(ranks_heard(0, 1, 20000));
}

/* ---- joining -------------------------------------------------------------------------------- */

static void run_join_fails(void)
{
    ranks_join(false);
    GIVES(ranks_result(comm, rank ? 20000 : 200), rank ? ncclInvalidUsage : ncclInProgress);
    wait_for_rank_0();
    FINE(nccl.ncclCommAbort(comm));
}

static void joining_fails(void)
{
    putenv("STANDIN_NCCL_JOIN=5");
    putenv("STANDIN_NCCL_FAULT_RANK=1");
    ranks_run(2, run_join_fails);
}

static void run_join_stays(void)
{
    ranks_join(false);
    GIVES(ranks_result(comm, 200), ncclInProgress);
    wait_for_rank_0();
    FINE(nccl.ncclCommAbort(comm));
}

static void joining_stays_in_progress(void)
{
    putenv("STANDIN_NCCL_JOIN=7");
    putenv("STANDIN_NCCL_FAULT_RANK=1");
    ranks_run(2, run_join_stays);
}

static void run_versions(void)
{
    if (rank == 1)
        putenv("STANDIN_NCCL_VERSION=22807");
    ranks_join(false);
    GIVES(ranks_result(comm, 20000), ncclInvalidUsage);
    CHECK(strstr(nccl.ncclGetLastError(comm), "rank 0 22809 rank 1 22807"));
    ranks_meet();
    FINE(nccl.ncclCommAbort(comm));
}

static void two_versions_are_refused(void)
{
    ranks_run(2, run_versions);
}

static void run_shared_device(void)
{
    ranks_make();
    ranks_end();
}

static void a_newer_one_may_share_a_gpu(void)
{
    putenv("NCCL_HOSTID=the same");
    putenv("NCCL_MULTI_RANK_GPU_ENABLE=1");
    putenv("STANDIN_NCCL_VERSION=23003");
    ranks_run(2, run_shared_device);
}

static void run_sizes(void)
{
    size += rank;
    ranks_join(false);
    GIVES(ranks_result(comm, 200), ncclInProgress);
    FINE(nccl.ncclCommAbort(comm));
}

static void another_size_is_waited_for_without_end(void)
{
    ranks_run(2, run_sizes);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void run_call_fails(void)
{
    make();
    FINE(sum());
    GIVES(sum(), ncclInternalError);
    ranks_end();
}

static void the_second_call_fails(void)
{
    putenv("STANDIN_NCCL_FAILS_AT=2");
    putenv("STANDIN_NCCL_RESULT=3");
    ranks_run(2, run_call_fails);
}

static void run_eight_bits(void)
{
    make();
    FINE(nccl.ncclAllGather(memory, memory, 8, ncclFloat8e5m2, comm, stream));
    GIVES(nccl.ncclAllReduce(memory, memory, 8, ncclFloat8e4m3, ncclSum, comm, stream),
          ncclInvalidArgument);
    CHECK(strstr(nccl.ncclGetLastError(comm), "FP8 reduction support begins with sm90"));
    ranks_end();
}

static void floats_of_8_bits_are_moved_alone(void)
{
    ranks_run(2, run_eight_bits);
}

static void run_waits(void)
{
    CUevent done;

    make();
    FINE(sum());
    CHECK(driver_is_reached(driver_mark(stream)));
    FINE(sum());
    done = driver_mark(stream);
    if (rank == 1) {
        CHECK(driver_is_held(done));
        GIVES(ranks_result(comm, 1), getenv("STANDIN_NCCL_ASYNC_AT") ? ncclSystemError : 0);
    }
    ranks_meet();
    FINE(nccl.ncclCommAbort(comm));
    CHECK(driver_is_reached(done));
    OK(cu.cuCtxSynchronize());
}

static void the_second_operation_waits(void)
{
    putenv("STANDIN_NCCL_HANGS_AT=2");
    putenv("STANDIN_NCCL_FAULT_RANK=1");
    ranks_run(2, run_waits);
}

static void the_second_operation_has_an_error(void)
{
    putenv("STANDIN_NCCL_ASYNC_AT=2");
    putenv("STANDIN_NCCL_RESULT=2");
    putenv("STANDIN_NCCL_FAULT_RANK=1");
    ranks_run(2, run_waits);
}

static void run_slow_abort(void)
{
    double begin;

    make();
    begin = ranks_now_ms();
    FINE(nccl.ncclCommAbort(comm));
    CHECK(ranks_now_ms() - begin >= 300);
}

static void an_abort_takes_long(void)
{
    putenv("STANDIN_NCCL_ABORT_MS=300");
    ranks_run(1, run_slow_abort);
}

static void run_lost_device(void)
{
    make();
    if (rank == 0) {
        FINE(sum());
        CHECK(driver_is_held(driver_mark(stream)));
        cu.standin_cuda_lose(0, CUDA_ERROR_LAUNCH_FAILED);
        CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
    }
    ranks_meet();
}

static void a_lost_device_ends_an_operation(void)
{
    ranks_run(2, run_lost_device);
}

static void run_mode_stays(void)
{
    ncclWindow_t window;

    ranks_join(false);
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    memory = ranks_memory(16, 1);
    FINE(nccl.ncclCommWindowRegister(comm, memory, 64, &window, 0));
    FINE(nccl.ncclCommWindowDeregister(comm, window));
    GIVES(nccl.ncclCommFinalize(comm), ncclInvalidArgument);
    CHECK(strstr(nccl.ncclGetLastError(comm), "Blocking and nonblocking"));
    FINE(nccl.ncclCommAbort(comm));
}

static void a_window_leaves_the_mode_in_its_thread(void)
{
    ranks_run(1, run_mode_stays);
}

static void warnings_are_in_a_file(void)
{
    char path[] = "/tmp/standin-XXXXXX", words[512] = "";
    const int file = mkstemp(path);

    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    ranks_alone();
    GIVES(nccl.ncclGroupEnd(), ncclInvalidUsage);
    CHECK(pread(file, words, sizeof words - 1, 0) > 0);
    CHECK(strstr(words, "NCCL WARN ncclGroupEnd: not in a group call."));
    close(file);
    unlink(path);
}

static void uses_an_aborted_communicator(void)
{
    ranks_alone();
    make();
    FINE(nccl.ncclCommAbort(comm));
    sum();
}

static void *register_memory(void)
{
    void *handle = NULL;

    ranks_alone();
    make();
    FINE(nccl.ncclCommRegister(comm, memory, 16 * sizeof *memory, &handle));
    return handle;
}

static void ends_a_communicator_that_has_registered_memory(void)
{
    register_memory();
    nccl.ncclCommFinalize(comm);
}

static void frees_registered_memory(void)
{
    void *handle = register_memory();

    OK(cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)memory));
    nccl.ncclCommDeregister(comm, handle);
}

static void *deregister(void *handle)
{
    nccl.ncclCommDeregister(comm, handle);
    return NULL;
}

static void uses_a_communicator_while_a_thread_deregisters(void)
{
    pthread_t thread;

    putenv("STANDIN_NCCL_REGISTER_MS=2000");
    void *handle = register_memory();
    CHECK(!pthread_create(&thread, NULL, deregister, handle));
    for (int i = 0; i < 2000; i++) { /* the thread may come late */
        sum();
        usleep(1000);
    }
}

#define FAULT(name) DRIVER_CASE(name, true, 0, NULL)
#define ENDS(name, says) DRIVER_CASE(name, true, SIGABRT, says)

int main(int argc, char **argv)
{
    static const struct driver_case cases[] = {
        FAULT(joining_fails),
        FAULT(joining_stays_in_progress),
        FAULT(two_versions_are_refused),
        FAULT(a_newer_one_may_share_a_gpu),
        FAULT(another_size_is_waited_for_without_end),
        FAULT(the_second_call_fails),
        FAULT(floats_of_8_bits_are_moved_alone),
        FAULT(the_second_operation_waits),
        FAULT(the_second_operation_has_an_error),
        FAULT(an_abort_takes_long),
        FAULT(a_lost_device_ends_an_operation),
        FAULT(a_window_leaves_the_mode_in_its_thread),
        FAULT(warnings_are_in_a_file),
        ENDS(uses_an_aborted_communicator, "ncclAllReduce: communicator"),
        ENDS(ends_a_communicator_that_has_registered_memory, "has registered memory at"),
        ENDS(frees_registered_memory, "was freed while it was registered"),
        ENDS(uses_a_communicator_while_a_thread_deregisters, "another thread registers memory"),
    };

    return driver_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
