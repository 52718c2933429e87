/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts, devices, words of errors, kernels, and a device that is lost.
 */
#include "driver_cases.h"
#include "kernel_table.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void nothing_works_before_the_driver_is_initialised(void)
{
    CUdeviceptr memory;
    CUcontext context;
    int value = 0;

    EXPECT(cu.cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cu.cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cu.cuMemAlloc_v2(&memory, 64), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_INITIALIZED);
    OK(cu.cuDriverGetVersion(&value));
    CHECK(value >= 11070);
    EXPECT(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuInit(0));
    OK(cu.cuInit(0));
}

void a_child_of_fork_has_no_driver(void)
{
    int status = 0, count;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 3);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

void devices_have_names_and_uuids(void)
{
    char name[64] = "", bus[32] = "";
    CUuuid uuid, none = {{0}};
    CUdevice device = -1;
    size_t bytes = 0;
    int count = 0, value = 0;

    OK(cu.cuDeviceGetCount(&count));
    OK(cu.cuDeviceGet(&device, 0));
    EXPECT(cu.cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    CHECK(name[0]);
    OK(cu.cuDeviceGetUuid_v2(&uuid, 0));
    CHECK(memcmp(&uuid, &none, sizeof uuid) != 0);
    OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(strlen(bus) == strlen("0000:00:00.0"));
    OK(cu.cuDeviceTotalMem_v2(&bytes, 0));
    CHECK(bytes > 0);
    OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    CHECK(value == 1);
    EXPECT(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0), CUDA_ERROR_INVALID_VALUE);
}

void errors_have_names_and_words(void)
{
    const char *text = "";

    OK(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    CHECK(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    OK(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(strcmp(text, "out of memory") == 0);
    EXPECT(cu.cuGetErrorString((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    CHECK(text == NULL);
}

void addresses_of_functions_are_given_by_name(void)
{
    void *function = NULL;
    int status = 9;

    OK(cu.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
    CHECK(function && status == 0);
    cu.cuGetProcAddress_v2("cuNoSuchFunction", &function, 12000, 0, &status);
    CHECK(!function && status == 1);
}

void contexts_are_a_stack_of_each_thread(void)
{
    CUcontext mine, other = NULL, context = NULL;
    int active = 0;
    unsigned flags;
    CUdevice device = -1;

    OK(cu.cuCtxGetCurrent(&mine));
    OK(cu.cuCtxCreate_v2(&other, 0, 0));
    OK(cu.cuCtxGetCurrent(&context));
    CHECK(context == other && other != mine);
    OK(cu.cuCtxSetCurrent(mine)); /* replaces the top */
    OK(cu.cuCtxPopCurrent_v2(&context));
    CHECK(context == mine);
    OK(cu.cuCtxGetCurrent(&context));
    CHECK(context == mine);
    OK(cu.cuCtxGetDevice(&device));
    CHECK(device == 0);
    OK(cu.cuCtxPopCurrent_v2(&context));
    OK(cu.cuCtxGetCurrent(&context));
    CHECK(context == NULL);
    EXPECT(cu.cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cu.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    OK(cu.cuCtxDestroy_v2(other));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active == 1);
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(context == mine);
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active == 0);
    EXPECT(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cu.cuDevicePrimaryCtxRetain(&context, 99), CUDA_ERROR_INVALID_DEVICE);
}

void events_belong_to_streams_of_their_context(void)
{
    CUstream mine = driver_stream(CU_STREAM_NON_BLOCKING), its;
    CUevent event = driver_event(), other;
    CUcontext context;

    OK(cu.cuCtxCreate_v2(&context, 0, 0));
    its = driver_stream(CU_STREAM_NON_BLOCKING);
    other = driver_event();
    EXPECT(cu.cuEventRecord(event, its), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cu.cuEventRecord(other, mine), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuEventRecord(event, mine));
    OK(cu.cuEventRecord(other, its));
    OK(cu.cuStreamWaitEvent(mine, other, 0));
    OK(cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cu.cuEventQuery(event));
    OK(cu.cuStreamSynchronize(mine));
    OK(cu.cuCtxDestroy_v2(context));
}

static CUfunction find(const struct kernel_id *id)
{
    CUmodule module = NULL;
    CUfunction function = NULL;

    OK(cu.cuModuleLoadData(&module, kernel_ptx(id->module)));
    OK(cu.cuModuleGetFunction(&function, module, id->name));
    return function;
}

static CUfunction find_sum(void)
{
    struct kernel_id id;

    CHECK(kernel_find_reduce(TUTTI_U32, TUTTI_SUM, &id));
    return find(&id);
}

static CUresult launch(CUfunction function, const void *arguments, CUstream stream)
{
    void *all[] = {(void *)(uintptr_t)arguments};

    return cu.cuLaunchKernel(function, 2, 1, 1, KERNEL_THREADS, 1, 1, 0, stream, all, NULL);
}

void kernels_run_in_stream_order(void)
{
    CUfunction sum = find_sum();
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr one = driver_memory(4096), two = driver_memory(4096);
    uint32_t *pinned = driver_pinned(4096);
    struct kernel_reduce reduce = {.count = 1024, .operands = 2};

    reduce.dst = (void *)(uintptr_t)one;
    reduce.first = reduce.dst;
    reduce.rest = (void *)(uintptr_t)two;
    driver_hold(stream);
    OK(cu.cuMemsetD32Async(one, 5, 1024, stream));
    OK(cu.cuMemsetD32Async(two, 7, 1024, stream));
    OK(launch(sum, &reduce, stream));
    reduce.rest = pinned; /* the launch has its own copy; kernels reach pinned memory */
    OK(cu.cuMemsetD8Async(at(pinned), 1, 4096, stream));
    OK(launch(sum, &reduce, stream));
    OK(cu.cuMemsetD32Async(two, 9, 1024, stream));
    driver_release();
    CHECK(driver_word(one) == 12 + 0x01010101);
    CHECK(driver_word(one + 4092) == 12 + 0x01010101);
}

void wrong_launches_and_modules_are_refused(void)
{
    CUfunction sum = find_sum(), none;
    CUmodule module;
    CUcontext context;
    CUstream its;
    struct kernel_reduce reduce = {.count = 0, .operands = 1};
    void *all[] = {&reduce};

    EXPECT(cu.cuLaunchKernel(sum, 0, 1, 1, 1, 1, 1, 0, NULL, all, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuLaunchKernel(sum, 1, 1, 1, 2048, 1, 1, 0, NULL, all, NULL),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuModuleLoadData(&module, "no PTX"), CUDA_ERROR_INVALID_IMAGE);
    OK(cu.cuModuleLoadData(&module, kernel_ptx(KERNEL_MODULE_move)));
    EXPECT(cu.cuModuleGetFunction(&none, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    OK(cu.cuModuleUnload(module));
    OK(cu.cuCtxCreate_v2(&context, 0, 0));
    its = driver_stream(CU_STREAM_NON_BLOCKING);
    EXPECT(launch(sum, &reduce, its), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuCtxDestroy_v2(context));
}

/* An illegal address over a real driver; the stand-in ends the process for that. */
static CUresult lose_the_device(CUfunction sum, CUstream stream)
{
    struct kernel_reduce reduce = {.count = 1, .operands = 2};

    if (cu.standin_cuda_lose) {
        cu.standin_cuda_lose(0, CUDA_ERROR_ILLEGAL_ADDRESS);
        return CUDA_SUCCESS;
    }
    reduce.dst = (void *)16;
    reduce.first = reduce.rest = (void *)(uintptr_t)driver_memory(64);
    return launch(sum, &reduce, stream);
}

void the_error_of_a_lost_device_stays(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = driver_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = driver_memory(64), more;
    CUstream waits = driver_stream(CU_STREAM_NON_BLOCKING);
    CUfunction sum = find_sum(); /* which would wait for a stream that is held */
    CUevent before = driver_mark(other), event = driver_event();
    CUcontext context = NULL;
    unsigned type;
    CUresult lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    void *pinned = driver_pinned(64), *second;

    OK(cu.cuStreamSynchronize(other));
    driver_hold(waits);
    OK(lose_the_device(sum, stream));
    EXPECT(cu.cuStreamSynchronize(stream), lost);
    EXPECT(cu.cuStreamQuery(other), lost);
    EXPECT(cu.cuEventQuery(before), lost);
    EXPECT(cu.cuEventRecord(event, other), lost);
    EXPECT(cu.cuMemAlloc_v2(&more, 64), lost);
    EXPECT(cu.cuMemHostAlloc(&second, 64, 0), lost);
    EXPECT(cu.cuMemcpyAsync(memory, at(pinned), 64, other), lost);
    EXPECT(cu.cuStreamWaitValue32_v2(other, at(pinned), 0, 0), lost);
    EXPECT(cu.cuMemFree_v2(memory), lost);
    EXPECT(cu.cuCtxSynchronize(), lost);
    EXPECT(cu.cuStreamSynchronize(waits), lost); /* the word never came */
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    OK(cu.cuCtxPopCurrent_v2(&context));
    OK(cu.cuCtxPushCurrent_v2(context));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(cu.cuDevicePrimaryCtxRetain(&context, 0), lost);
}
