/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's calls on streams that are captured into graphs.
 */
#include "nccl_ranks.h"

#include <string.h>

static CUstream stream(void)
{
    return driver_stream(CU_STREAM_NON_BLOCKING);
}

static void run_capture(void)
{
    float *memory, *pinned;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;

    ranks_make();
    s = stream();
    pinned = driver_pinned(64);
    memory = ranks_memory(16, 1);
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclMax, comm, s));
    OK(cu.cuStreamSynchronize(s));
    OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cu.cuMemcpyAsync(at(memory), at(pinned), 64, s));
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s));
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    for (int i = 1; i < 4; i++) {
        pinned[5] = (float)(i + rank);
        OK(cu.cuGraphLaunch(exec, s));
        CHECK(ranks_float(memory, 5) == (float)(2 * i + 1));
    }
    OK(cu.cuGraphExecDestroy(exec));
    ranks_end();
}

void a_captured_call_replays(void)
{
    ranks_run(2, run_capture);
}

/* A graph with a sum of 16 floats, of a stream of its own. */
static CUgraphExec sum_graph(CUstream s, float *memory)
{
    CUgraphExec exec = NULL;
    CUgraph graph;

    OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, s);
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return exec;
}

static void run_mixed(void)
{
    float *memory;
    CUgraphExec exec;
    CUstream a, b;

    ranks_make();
    a = stream();
    b = stream();
    memory = ranks_memory(16, 1);
    exec = sum_graph(a, memory);
    driver_hold(a);
    OK(cu.cuGraphLaunch(exec, a));
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, b));
    CHECK(driver_is_held(driver_mark(b)));
    driver_release();
    CHECK(ranks_float(memory, 0) == 4);
    OK(cu.cuGraphExecDestroy(exec));
    ranks_end();
}

void a_call_comes_after_a_graph_that_was_launched_before(void)
{
    ranks_run(2, run_mixed);
}

static void run_alike(void)
{
    float *memory;
    CUgraph graph;
    CUstream a, b;

    ranks_make();
    a = stream();
    b = stream();
    memory = ranks_memory(16, 1);
    OK(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FINE(nccl.ncclGroupStart());
    FINE(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, a));
    GIVES(nccl.ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, comm, b), ncclInvalidUsage);
    CHECK(strstr(nccl.ncclGetLastError(comm), "all captured by the same graph"));
    GIVES(nccl.ncclGroupEnd(), ncclInvalidUsage);
    OK(cu.cuStreamEndCapture(a, &graph));
    OK(cu.cuGraphDestroy(graph));
    FINE(nccl.ncclCommAbort(comm));
}

void streams_of_a_group_are_all_captured_or_none(void)
{
    ranks_run(1, run_alike);
}

static void run_ends_late(void)
{
    CUgraphExec exec;
    CUstream s;

    ranks_join(false); /* in progress, as the call that the capture records */
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    s = stream();
    exec = sum_graph(s, ranks_memory(16, 1));
    OK(cu.cuGraphLaunch(exec, s));
    OK(cu.cuStreamSynchronize(s));
    nccl.ncclCommFinalize(comm);
    GIVES(ranks_result(comm, 300), ncclInProgress);
    ranks_meet();
    OK(cu.cuGraphExecDestroy(exec));
    GIVES(ranks_result(comm, 20000), ncclSuccess);
    FINE(nccl.ncclCommDestroy(comm));
}

void a_communicator_ends_after_its_graphs(void)
{
    ranks_run(2, run_ends_late);
}
