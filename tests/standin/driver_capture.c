/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture: what is recorded, what replays, what is refused.
 */
#include "driver_cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED
#define UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define INVALIDATED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    OK(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

static CUstream begin(unsigned flags, CUstreamCaptureMode mode)
{
    CUstream stream = driver_stream(flags);

    OK(cu.cuStreamBeginCapture_v2(stream, mode));
    return stream;
}

static void check_ends(CUstream stream, CUresult result)
{
    CUgraph graph = NULL;

    EXPECT(cu.cuStreamEndCapture(stream, &graph), result);
    CHECK((graph != NULL) == (result == CUDA_SUCCESS));
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    if (graph)
        OK(cu.cuGraphDestroy(graph));
}

void a_captured_stream_replays(void)
{
    uint32_t *pinned = driver_pinned(64);
    CUdeviceptr memory = driver_memory(64);
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, GLOBAL), other;
    CUgraphExec exec;
    CUgraph graph;

    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu.cuMemcpyAsync(memory, at(pinned), 4, stream));
    OK(cu.cuMemcpyAsync(at(pinned + 1), memory, 4, stream));
    OK(cu.cuStreamWriteValue32_v2(stream, at(pinned + 2), 9, 0));
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(pinned[2] == 0);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    other = driver_stream(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 1; i < 4; i++) {
        pinned[0] = i;
        pinned[2] = 0;
        OK(cu.cuGraphLaunch(exec, other));
        OK(cu.cuStreamSynchronize(other));
        CHECK(pinned[1] == i && pinned[2] == 9);
    }
    OK(cu.cuGraphExecDestroy(exec));
}

static void note(void *of)
{
    atomic_store((atomic_bool *)of, true);
}

/* Also while it is launched; nobody waits for its end. */
void a_graph_frees_what_it_was_given_at_its_end(void)
{
    static atomic_bool is_free;
    uint32_t *pinned = driver_pinned(64);
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, GLOBAL);
    CUstreamCaptureStatus status;
    CUuserObject object;
    CUgraphExec exec;
    CUgraph graph;

    OK(cu.cuStreamWriteValue32_v2(stream, at(pinned), 9, 0));
    OK(cu.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL));
    OK(cu.cuUserObjectCreate(&object, &is_free, note, 1, USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cu.cuGraphRetainUserObject(graph, object, 1, GRAPH_USER_OBJECT_MOVE));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    CHECK(!atomic_load(&is_free));
    driver_hold(stream);
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphExecDestroy(exec));
    CHECK(!atomic_load(&is_free));
    driver_release();
    OK(cu.cuStreamSynchronize(stream));
    CHECK(pinned[0] == 9);
    for (int ms = 0; ms < 5000 && !atomic_load(&is_free); ms++)
        usleep(1000);
    CHECK(atomic_load(&is_free));
}

void a_capture_takes_in_streams_that_wait_for_it(void)
{
    CUdeviceptr memory = driver_memory(64);
    CUevent fork = driver_event(), join = driver_event();
    CUstream other = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream beside = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);

    OK(cu.cuMemsetD8Async(memory, 1, 4, stream));
    OK(cu.cuEventRecord(fork, stream));
    OK(cu.cuStreamWaitEvent(other, fork, 0));
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu.cuMemsetD8Async(memory + 4, 1, 4, other));
    CHECK(status_of(beside) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuStreamQuery(beside));
    OK(cu.cuEventRecord(join, other));
    OK(cu.cuStreamWaitEvent(stream, join, 0));
    check_ends(stream, CUDA_SUCCESS);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
}

void a_capture_with_unjoined_work_fails(void)
{
    CUdeviceptr memory = driver_memory(64);
    CUevent fork = driver_event();
    CUstream other = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);

    OK(cu.cuEventRecord(fork, stream));
    OK(cu.cuStreamWaitEvent(other, fork, 0));
    OK(cu.cuMemsetD8Async(memory, 1, 4, other));
    check_ends(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
}

void the_legacy_stream_cannot_be_captured(void)
{
    CHECK(status_of(NULL) == CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT(cu.cuStreamBeginCapture_v2(NULL, RELAXED), UNSUPPORTED);
    EXPECT(cu.cuStreamBeginCapture_v2(CU_STREAM_LEGACY, GLOBAL), UNSUPPORTED);
    OK(cu.cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, RELAXED));
    check_ends(CU_STREAM_PER_THREAD, CUDA_SUCCESS);
}

void the_legacy_stream_is_refused_beside_a_blocking_capture(void)
{
    CUdeviceptr memory = driver_memory(64);
    CUstream stream = begin(CU_STREAM_DEFAULT, RELAXED);
    CUstreamCaptureStatus status;

    EXPECT(cu.cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(cu.cuMemsetD8Async(memory, 1, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    check_ends(stream, INVALIDATED);
    stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);
    OK(cu.cuMemsetD8Async(memory, 1, 4, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    check_ends(stream, CUDA_SUCCESS);
}

void asking_a_capturing_stream_invalidates_its_capture(void)
{
    CUdeviceptr memory = driver_memory(64);
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);

    EXPECT(cu.cuStreamQuery(stream), UNSUPPORTED);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(cu.cuMemsetD8Async(memory, 1, 4, stream), INVALIDATED);
    check_ends(stream, INVALIDATED);
    OK(cu.cuStreamBeginCapture_v2(stream, RELAXED));
    EXPECT(cu.cuStreamSynchronize(stream), UNSUPPORTED);
    check_ends(stream, INVALIDATED);
    OK(cu.cuMemsetD8Async(memory, 1, 4, stream));
    OK(cu.cuStreamSynchronize(stream));
}

static void *end_elsewhere(void *stream)
{
    CUcontext context;
    CUgraph graph;

    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    EXPECT(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    return NULL;
}

void another_thread_ends_a_capture_without_a_graph(void)
{
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, LOCAL);
    pthread_t thread;
    CUgraph graph;

    CHECK(pthread_create(&thread, NULL, end_elsewhere, stream) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static void *allocate(void *ret_result)
{
    CUcontext context;
    CUdeviceptr memory;

    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    *(CUresult *)ret_result = cu.cuMemAlloc_v2(&memory, 64);
    return NULL;
}

static CUresult allocate_in_a_thread(void)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, allocate, &result) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return result;
}

void unsafe_calls_invalidate_captures_unless_relaxed(void)
{
    CUdeviceptr memory;
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, GLOBAL);
    CUstreamCaptureMode mode = RELAXED;

    EXPECT(cu.cuMemAlloc_v2(&memory, 64), UNSUPPORTED);
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    check_ends(stream, INVALIDATED);
    stream = begin(CU_STREAM_NON_BLOCKING, LOCAL);
    EXPECT(cu.cuStreamQuery(driver_stream(CU_STREAM_NON_BLOCKING)), UNSUPPORTED);
    check_ends(stream, INVALIDATED);
    stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);
    OK(cu.cuMemAlloc_v2(&memory, 64));
    OK(cu.cuMemsetD8_v2(memory, 1, 64));
    check_ends(stream, CUDA_SUCCESS);
    stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);
    EXPECT(cu.cuCtxSynchronize(), UNSUPPORTED);
    check_ends(stream, INVALIDATED);
    stream = begin(CU_STREAM_NON_BLOCKING, GLOBAL);
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == GLOBAL);
    OK(cu.cuMemAlloc_v2(&memory, 64));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == RELAXED);
    check_ends(stream, CUDA_SUCCESS);
    stream = begin(CU_STREAM_NON_BLOCKING, GLOBAL);
    EXPECT(allocate_in_a_thread(), UNSUPPORTED);
    check_ends(stream, INVALIDATED);
    stream = begin(CU_STREAM_NON_BLOCKING, LOCAL);
    OK(allocate_in_a_thread());
    check_ends(stream, CUDA_SUCCESS);
}

void captured_events_cannot_be_asked(void)
{
    CUevent event = driver_event(), outside;
    CUstream stream, other = driver_stream(CU_STREAM_NON_BLOCKING);

    outside = driver_mark(other);
    OK(cu.cuStreamSynchronize(other));
    stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);
    OK(cu.cuEventRecord(event, stream));
    EXPECT(cu.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    check_ends(stream, INVALIDATED);
    EXPECT(cu.cuEventQuery(event), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuStreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuEventRecord(event, other));
    OK(cu.cuEventSynchronize(event));
    stream = begin(CU_STREAM_NON_BLOCKING, RELAXED);
    EXPECT(cu.cuStreamWaitEvent(stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    check_ends(stream, INVALIDATED);
}

void captures_end_where_they_began(void)
{
    CUstream stream = begin(CU_STREAM_NON_BLOCKING, RELAXED), other;
    CUevent fork = driver_event();
    CUgraph graph;

    EXPECT(cu.cuStreamBeginCapture_v2(stream, RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    check_ends(stream, CUDA_SUCCESS);
    EXPECT(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    other = driver_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cu.cuEventRecord(fork, stream));
    OK(cu.cuStreamWaitEvent(other, fork, 0));
    EXPECT(cu.cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    check_ends(stream, INVALIDATED);
    OK(cu.cuStreamBeginCapture_v2(stream, RELAXED));
    OK(cu.cuStreamBeginCapture_v2(other, RELAXED));
    OK(cu.cuEventRecord(fork, stream));
    EXPECT(cu.cuStreamWaitEvent(other, fork, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    check_ends(stream, INVALIDATED);
    check_ends(other, INVALIDATED);
}
