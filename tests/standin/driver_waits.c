/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls wait for the streams of the context, although they are about none: a caller that a stream waits for
 * must not make them.
 */
#include "driver_cases.h"
#include "kernel_table.h"

#include <pthread.h>
#include <unistd.h>

#define HELD_MS 60

static char registered[8192] __attribute__((aligned(4096)));
static CUdeviceptr memory;
static void *pinned;
static CUmodule module;
static CUstream stream;
static CUevent event;

static CUresult allocate(void)
{
    return cu.cuMemAlloc_v2(&memory, 1 << 20);
}

static CUresult free_it(void)
{
    return cu.cuMemFree_v2(memory);
}

static CUresult allocate_pinned(void)
{
    return cu.cuMemHostAlloc(&pinned, 1 << 20, 0);
}

static CUresult free_pinned(void)
{
    return cu.cuMemFreeHost(pinned);
}

static CUresult register_it(void)
{
    return cu.cuMemHostRegister_v2(registered, sizeof registered, 0);
}

static CUresult unregister(void)
{
    return cu.cuMemHostUnregister(registered);
}

static CUresult load(void)
{
    return cu.cuModuleLoadData(&module, kernel_ptx(KERNEL_MODULE_move));
}

static CUresult unload(void)
{
    return cu.cuModuleUnload(module);
}

static CUresult create_stream(void)
{
    return cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static CUresult record(void)
{
    CUresult result = cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    return result ? result : cu.cuEventRecord(event, stream);
}

static CUresult destroy_event(void)
{
    return cu.cuEventDestroy_v2(event);
}

static CUresult destroy_stream(void)
{
    return cu.cuStreamDestroy_v2(stream);
}

static CUresult synchronize(void)
{
    return cu.cuCtxSynchronize();
}

static void *release_later(void *released)
{
    usleep(HELD_MS * 1000);
    __atomic_store_n((int *)released, 1, __ATOMIC_SEQ_CST);
    driver_release();
    return NULL;
}

/* A call that waits although it should not is ended by the deadline of the case. */
static void check_call(CUstream held, const char *name, CUresult (*call)(void), bool waits)
{
    int released = 0;
    pthread_t thread;

    driver_hold(held);
    if (waits)
        CHECK(pthread_create(&thread, NULL, release_later, &released) == 0);
    driver_expect(__FILE__, __LINE__, name, call(), CUDA_SUCCESS);
    if (waits) {
        driver_check(__FILE__, __LINE__, name, __atomic_load_n(&released, __ATOMIC_SEQ_CST) == 1);
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        driver_release();
    }
    OK(cu.cuStreamSynchronize(held));
}

void some_calls_wait_for_all_streams_of_the_context(void)
{
    CUstream held = driver_stream(CU_STREAM_NON_BLOCKING);

    check_call(held, "cuMemAlloc", allocate, false);
    check_call(held, "cuMemHostAlloc", allocate_pinned, false);
    check_call(held, "cuMemHostRegister", register_it, false);
    check_call(held, "cuStreamCreate", create_stream, false);
    check_call(held, "cuEventRecord", record, false);
    check_call(held, "cuEventDestroy", destroy_event, false);
    check_call(held, "cuStreamDestroy", destroy_stream, false);
    check_call(held, "cuMemHostUnregister", unregister, true);
    check_call(held, "cuMemFreeHost", free_pinned, true);
    check_call(held, "cuMemFree", free_it, true);
    check_call(held, "cuModuleLoadData", load, true);
    check_call(held, "cuModuleUnload", unload, true);
    check_call(held, "cuCtxSynchronize", synchronize, true);
}
