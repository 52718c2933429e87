/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in adds to the driver's rules: it ends a process that breaks one, and it has faults.
 */
#include "driver.h"
#include "kernel_table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Begins with variables, «NAME=value». */
static void begin_with(char *one, char *two)
{
    putenv(one);
    if (two)
        putenv(two);
    driver_begin();
}

static void the_host_cannot_touch_device_memory(void)
{
    CUdeviceptr memory = driver_memory(4096);
    int ends[2];

    CHECK(pipe(ends) == 0);
    errno = 0;
    CHECK(syscall(SYS_write, ends[1], memory, 1) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_write, ends[1], memory + 4095, 1) == -1 && errno == EFAULT);
}

static void new_memory_is_poisoned(void)
{
    uint32_t *pinned = NULL;

    CHECK(driver_word(driver_memory(64)) == 0xa5a5a5a5);
    OK(cu.cuMemHostAlloc((void **)&pinned, 64, 0));
    CHECK(pinned[0] == 0xa5a5a5a5);
}

static void copies_pageable_memory_asynchronously(void)
{
    char pageable[64] = "";

    cu.cuMemcpyHtoDAsync_v2(driver_memory(64), pageable, 64, NULL);
}

static void calls_without_a_context(void)
{
    CUdeviceptr memory;

    OK(cu.cuCtxPopCurrent_v2(NULL));
    cu.cuMemAlloc_v2(&memory, 64);
}

static void calls_with_a_released_context(void)
{
    CUdeviceptr memory;

    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    cu.cuMemAlloc_v2(&memory, 64);
}

static void copies_freed_memory(void)
{
    CUdeviceptr memory = driver_memory(64);
    char *pinned = driver_pinned(64);

    OK(cu.cuMemFree_v2(memory));
    cu.cuMemcpyAsync(at(pinned), memory, 64, NULL);
}

static void frees_twice(void)
{
    CUdeviceptr memory = driver_memory(64);

    OK(cu.cuMemFree_v2(memory));
    cu.cuMemFree_v2(memory);
}

static void copies_more_than_there_is(void)
{
    char *pinned = driver_pinned(128);

    cu.cuMemcpyAsync(at(pinned), driver_memory(64), 65, NULL);
}

static void uses_a_destroyed_stream(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);

    OK(cu.cuStreamDestroy_v2(stream));
    cu.cuStreamQuery(stream);
}

static void uses_a_destroyed_event(void)
{
    CUevent event = driver_event();

    OK(cu.cuEventDestroy_v2(event));
    cu.cuEventQuery(event);
}

/* dst = first + dst, over `count` words. */
static void add_words(CUdeviceptr dst, CUdeviceptr first, uint64_t count)
{
    struct kernel_reduce reduce = {.count = count, .operands = 2};
    struct kernel_id id;
    CUmodule module;
    CUfunction function;
    void *arguments[] = {&reduce};

    reduce.dst = (void *)(uintptr_t)dst;
    reduce.first = (const void *)(uintptr_t)first;
    reduce.rest = reduce.dst;
    CHECK(kernel_find_reduce(TUTTI_U32, TUTTI_SUM, &id));
    OK(cu.cuModuleLoadData(&module, kernel_ptx(id.module)));
    OK(cu.cuModuleGetFunction(&function, module, id.name));
    OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

static void gives_a_kernel_pageable_memory(void)
{
    uint32_t pageable[4] = {0};

    add_words(driver_memory(16), at(pageable), 4);
    cu.cuCtxSynchronize();
}

static void lets_a_kernel_write_too_far(void)
{
    CUdeviceptr memory = driver_memory(64);

    add_words(memory, driver_memory(256), 17);
    OK(cu.cuCtxSynchronize());
    cu.cuMemFree_v2(memory);
}

/* Memory of device 1, with device 0's context current again. */
static CUdeviceptr memory_of_device_1(CUcontext *ret_context)
{
    CUdeviceptr memory;

    OK(cu.cuDevicePrimaryCtxRetain(ret_context, 1));
    OK(cu.cuCtxPushCurrent_v2(*ret_context));
    memory = driver_memory(64);
    OK(cu.cuMemsetD32_v2(memory, 4, 16));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuCtxPopCurrent_v2(NULL));
    return memory;
}

static void lets_a_kernel_touch_another_device(void)
{
    CUcontext other;

    begin_with("STANDIN_CUDA_DEVICES=2", NULL);
    add_words(driver_memory(64), memory_of_device_1(&other), 16);
    cu.cuCtxSynchronize();
}

static void kernels_reach_peers_once_access_is_enabled(void)
{
    CUdeviceptr mine, its;
    CUcontext other;

    begin_with("STANDIN_CUDA_DEVICES=2", NULL);
    mine = driver_memory(64);
    its = memory_of_device_1(&other);
    OK(cu.cuMemsetD32_v2(mine, 1, 16));
    OK(cu.cuCtxEnablePeerAccess(other, 0));
    EXPECT(cu.cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    add_words(mine, its, 16);
    CHECK(driver_word(mine) == 5);
    OK(cu.cuCtxDisablePeerAccess(other));
}

static void other_ptx_is_refused(void)
{
    CUmodule module;

    EXPECT(cu.cuModuleLoadData(&module, ".version 4.0\n.target sm_50\n.visible .entry mine("
                                        ".param .align 8 .b8 mine_param_0[8])\n{ ret; }\n"),
           CUDA_ERROR_INVALID_PTX);
}

static void devices_are_counted_and_chosen_by_variables(void)
{
    CUuuid uuid;
    int count = 0;

    begin_with("STANDIN_CUDA_DEVICES=8", "CUDA_VISIBLE_DEVICES=5,2,9,1");
    OK(cu.cuDeviceGetCount(&count));
    CHECK(count == 2);
    OK(cu.cuDeviceGetUuid_v2(&uuid, 0));
    CHECK(uuid.bytes[15] == 5);
    OK(cu.cuDeviceGetUuid_v2(&uuid, 1));
    CHECK(uuid.bytes[15] == 2);
}

static void without_devices_the_driver_says_so(void)
{
    putenv("STANDIN_CUDA_DEVICES=0");
    EXPECT(cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
}

static void memory_ends_at_the_chosen_allocation(void)
{
    CUdeviceptr memory;
    void *pinned;

    begin_with("STANDIN_CUDA_OOM_AT=3", "STANDIN_CUDA_MEMORY_MIB=2");
    EXPECT(cu.cuMemAlloc_v2(&memory, 3 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemAlloc_v2(&memory, 64));
    EXPECT(cu.cuMemHostAlloc(&pinned, 64, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cu.cuMemAlloc_v2(&memory, 64), CUDA_ERROR_OUT_OF_MEMORY);
}

static void memory_ends_when_the_device_is_full(void)
{
    CUdeviceptr memory, more;

    begin_with("STANDIN_CUDA_MEMORY_MIB=2", NULL);
    OK(cu.cuMemAlloc_v2(&memory, 1 << 20));
    EXPECT(cu.cuMemAlloc_v2(&more, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuMemAlloc_v2(&more, (1 << 20) + 1));
}

static void a_device_is_lost_at_the_chosen_operation(void)
{
    CUdeviceptr memory;

    begin_with("STANDIN_CUDA_LOST_AT=3", "STANDIN_CUDA_LOST_ERROR=700");
    memory = driver_memory(64);
    for (int i = 0; i < 2; i++) {
        OK(cu.cuMemsetD8_v2(memory, 1, 64));
        OK(cu.cuCtxSynchronize());
    }
    OK(cu.cuMemsetD8_v2(memory, 1, 64));
    EXPECT(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cu.cuMemAlloc_v2(&memory, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void a_device_is_lost_once_a_file_exists(void)
{
    char path[64], variable[96];
    CUcontext other;
    CUevent event;
    FILE *file;

    snprintf(path, sizeof path, "/tmp/standin-lost-%d", (int)getpid());
    snprintf(variable, sizeof variable, "STANDIN_CUDA_LOST_FILE=%s", path);
    putenv("STANDIN_CUDA_DEVICES=2");
    begin_with(variable, "STANDIN_CUDA_LOST_DEVICE=0");
    memory_of_device_1(&other);
    driver_hold(NULL);
    event = driver_mark(NULL);
    CHECK(driver_is_held(event));
    file = fopen(path, "w");
    CHECK(file && fclose(file) == 0);
    EXPECT(cu.cuEventSynchronize(event), CUDA_ERROR_LAUNCH_FAILED); /* the word never came */
    OK(cu.cuCtxPushCurrent_v2(other));
    OK(cu.cuCtxSynchronize());
    unlink(path);
}

static void a_copy_fails_late(void)
{
    CUdeviceptr memory;
    char *pinned;

    begin_with("STANDIN_CUDA_LATE_COPY=2", NULL);
    memory = driver_memory(64);
    pinned = driver_pinned(64);
    OK(cu.cuMemcpyAsync(memory, at(pinned), 64, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuMemcpyAsync(at(pinned), memory, 64, NULL));
    EXPECT(cu.cuStreamSynchronize(NULL), CUDA_ERROR_ECC_UNCORRECTABLE);
    EXPECT(cu.cuStreamSynchronize(NULL), CUDA_ERROR_ECC_UNCORRECTABLE);
}

static void faults_are_for_the_chosen_rank(void)
{
    setenv("TUTTI_RANK", "1", 1);
    begin_with("STANDIN_CUDA_OOM_AT=1", "STANDIN_CUDA_FAULT_RANK=0");
    driver_memory(64);
}

static void copies_take_their_time_on_a_slow_device(void)
{
    CUstream stream;
    CUdeviceptr memory;
    CUevent start, end;
    float ms = 0;

    begin_with("STANDIN_CUDA_SLOW_MIBS=20", NULL);
    stream = driver_stream(CU_STREAM_NON_BLOCKING);
    memory = driver_memory(2 << 20);
    start = driver_mark(stream);
    OK(cu.cuMemcpyDtoDAsync_v2(memory, memory + (1 << 20), 1 << 20, stream));
    end = driver_mark(stream);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuEventElapsedTime(&ms, start, end));
    CHECK(ms >= 50);
}

static void many_streams_and_events_come_and_go(void)
{
    CUdeviceptr memory = driver_memory(64);

    for (int i = 0; i < 200; i++) {
        CUstream stream = driver_stream(i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        CUevent event = driver_event();

        OK(cu.cuMemsetD32Async(memory, (unsigned)i, 1, stream));
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuStreamWaitEvent(NULL, event, 0));
        OK(cu.cuEventDestroy_v2(event));
        OK(cu.cuStreamDestroy_v2(stream));
        OK(cu.cuStreamSynchronize(NULL));
    }
    CHECK(driver_word(memory) == 199);
}

int main(int argc, char **argv)
{
#define HOLDS(name) DRIVER_CASE(name, false, 0, NULL)
#define BEGINS(name) DRIVER_CASE(name, true, 0, NULL)
#define ENDS(name, words)                                                                          \
    {                                                                                              \
        "a_process_that_" #name "_is_ended", name, false, SIGABRT, words                           \
    }
    static const struct driver_case cases[] = {
        HOLDS(the_host_cannot_touch_device_memory),
        HOLDS(new_memory_is_poisoned),
        ENDS(copies_pageable_memory_asynchronously, "is pageable memory"),
        ENDS(calls_without_a_context, "no context is current"),
        ENDS(calls_with_a_released_context, "is destroyed"),
        ENDS(copies_freed_memory, "is not allocated"),
        ENDS(frees_twice, "is not the begin of an allocation"),
        ENDS(copies_more_than_there_is, "whose allocation ends after 64"),
        ENDS(uses_a_destroyed_stream, "is destroyed"),
        ENDS(uses_a_destroyed_event, "is destroyed"),
        ENDS(gives_a_kernel_pageable_memory, "not memory that a kernel may touch"),
        ENDS(lets_a_kernel_write_too_far, "was written"),
        {"a_process_that_lets_a_kernel_touch_another_device_is_ended",
         lets_a_kernel_touch_another_device, true, SIGABRT, "has no access"},
        BEGINS(kernels_reach_peers_once_access_is_enabled),
        HOLDS(other_ptx_is_refused),
        BEGINS(devices_are_counted_and_chosen_by_variables),
        BEGINS(without_devices_the_driver_says_so),
        BEGINS(memory_ends_at_the_chosen_allocation),
        BEGINS(memory_ends_when_the_device_is_full),
        BEGINS(a_device_is_lost_at_the_chosen_operation),
        BEGINS(a_device_is_lost_once_a_file_exists),
        BEGINS(a_copy_fails_late),
        BEGINS(faults_are_for_the_chosen_rank),
        BEGINS(copies_take_their_time_on_a_slow_device),
        HOLDS(many_streams_and_events_come_and_go),
    };

    unsetenv("TUTTI_CUDA");
    return driver_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
