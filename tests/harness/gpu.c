/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/gpu.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "harness/rank.h"

/* The part of the driver API that ranks use; all return 0 or what failed. */
#define GPU_FUNCTIONS(X)                                                                           \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuGetErrorName, (int result, const char **name))                                             \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuCtxGetCurrent, (void **context))                                                           \
    X(cuCtxCreate_v2, (void **context, unsigned flags, int device))                                \
    X(cuMemAlloc_v2, (uint64_t * memory, size_t bytes))                                            \
    X(cuMemAllocManaged, (uint64_t * memory, size_t bytes, unsigned flags))                        \
    X(cuMemFree_v2, (uint64_t memory))                                                             \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                               \
    X(cuMemFreeHost, (void *memory))                                                               \
    X(cuMemcpy, (uint64_t to, uint64_t from, size_t bytes))                                        \
    X(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream))                     \
    X(cuStreamCreate, (void **stream, unsigned flags))                                             \
    X(cuStreamDestroy_v2, (void *stream))                                                          \
    X(cuStreamQuery, (void *stream))                                                               \
    X(cuStreamWaitValue32_v2, (void *stream, uint64_t address, uint32_t value, unsigned flags))    \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                                           \
    X(cuStreamEndCapture, (void *stream, void **graph))                                            \
    X(cuGraphInstantiateWithFlags, (void **instance, void *graph, unsigned long long flags))       \
    X(cuGraphLaunch, (void *instance, void *stream))                                               \
    X(cuGraphExecDestroy, (void *instance))                                                        \
    X(cuGraphDestroy, (void *graph))

static struct {
#define GPU_MEMBER(name, arguments) int(*name) arguments;
    GPU_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
    int device;
    bool is_loaded;
} gpu;

enum {
    MAPPED = 1 | 2 /* portable, mapped */,
    ATTACH_GLOBAL = 1,
    CAPTURE_GLOBAL = 0,
    NOT_READY = 600
};

static void must(int result, const char *what)
{
    const char *name = "?";

    if (result)
        gpu.cuGetErrorName(result, &name);
    require(rank_check(RANK_PLACE, !result, "%s: %d, %s", what, result, name));
}

static bool load(void)
{
    const char *path = getenv("TUTTI_CUDA");
    void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return false;
#define GPU_FIND(function, arguments)                                                              \
    *(void **)(void *)&gpu.function = dlsym(library, #function);                                   \
    require(gpu.function);
    GPU_FUNCTIONS(GPU_FIND)
#undef GPU_FIND
    gpu.is_loaded = !gpu.cuInit(0);
    return gpu.is_loaded;
}

int gpu_count(void)
{
    int count = 0;

    if (!gpu.is_loaded && !load())
        return 0;
    must(gpu.cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
}

void gpu_use(int number)
{
    void *context;

    require(gpu_count() > number);
    gpu.device = number;
    must(gpu.cuDevicePrimaryCtxRetain(&context, number), "cuDevicePrimaryCtxRetain");
    must(gpu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

tutti_device gpu_device(void)
{
    return (tutti_device){TUTTI_DEVICE_CUDA, gpu.device};
}

void *gpu_context(void)
{
    void *context;

    must(gpu.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    return context;
}

void gpu_use_own_context(void)
{
    void *context;

    must(gpu.cuCtxCreate_v2(&context, 0, gpu.device), "cuCtxCreate");
}

/* ---- memory ---- */

void *gpu_allocate(size_t bytes)
{
    uint64_t memory;

    must(gpu.cuMemAlloc_v2(&memory, bytes ? bytes : 1), "cuMemAlloc");
    return (void *)(uintptr_t)memory;
}

void *gpu_allocate_managed(size_t bytes)
{
    uint64_t memory;

    must(gpu.cuMemAllocManaged(&memory, bytes, ATTACH_GLOBAL), "cuMemAllocManaged");
    return (void *)(uintptr_t)memory;
}

void gpu_free(void *memory)
{
    must(gpu.cuMemFree_v2((uintptr_t)memory), "cuMemFree");
}

void *gpu_allocate_pinned(size_t bytes)
{
    void *memory;

    must(gpu.cuMemHostAlloc(&memory, bytes, MAPPED), "cuMemHostAlloc");
    return memory;
}

void gpu_free_pinned(void *memory)
{
    must(gpu.cuMemFreeHost(memory), "cuMemFreeHost");
}

void gpu_write(void *to, const void *from, size_t bytes)
{
    must(gpu.cuMemcpy((uintptr_t)to, (uintptr_t)from, bytes), "cuMemcpy to the device");
    gpu_synchronize(NULL); /* from pageable memory it may return before the device has all */
}

void gpu_read(void *to, const void *from, size_t bytes)
{
    must(gpu.cuMemcpy((uintptr_t)to, (uintptr_t)from, bytes), "cuMemcpy to the host");
}

/* ---- streams ---- */

void *gpu_stream(void)
{
    void *stream;

    must(gpu.cuStreamCreate(&stream, 1), "cuStreamCreate");
    return stream;
}

void gpu_stream_free(void *stream)
{
    must(gpu.cuStreamDestroy_v2(stream), "cuStreamDestroy");
}

int gpu_is_idle(void *stream)
{
    const int result = gpu.cuStreamQuery(stream);

    if (result != NOT_READY)
        must(result, "cuStreamQuery");
    return !result;
}

void gpu_synchronize(void *stream)
{
    const int64_t until = rank_now_ns() + INT64_C(60000000000);

    while (!gpu_is_idle(stream)) {
        require(rank_check(RANK_PLACE, rank_now_ns() < until, "the stream still waits after 60 s"));
        rank_sleep_ms(1);
    }
}

void gpu_copy_on(void *stream, void *to, const void *from, size_t bytes)
{
    must(gpu.cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream), "cuMemcpyAsync");
}

struct gpu_hold {
    _Atomic uint32_t *word;
};

struct gpu_hold *gpu_hold(void *stream)
{
    struct gpu_hold *hold = malloc(sizeof *hold);

    require(hold);
    hold->word = gpu_allocate_pinned(sizeof *hold->word);
    atomic_store(hold->word, 0);
    must(gpu.cuStreamWaitValue32_v2(stream, (uintptr_t)hold->word, 1, 0), "cuStreamWaitValue32");
    return hold;
}

/* The word stays: the stream may not have looked yet. */
void gpu_let_go(struct gpu_hold *hold)
{
    atomic_store(hold->word, 1);
    free(hold);
}

void gpu_capture(void *stream)
{
    must(gpu.cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "cuStreamBeginCapture");
}

void gpu_capture_end(void *stream)
{
    void *graph;

    must(gpu.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    must(gpu.cuGraphDestroy(graph), "cuGraphDestroy");
}

void *gpu_graph(void *stream)
{
    void *graph, *instance;

    must(gpu.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    must(gpu.cuGraphInstantiateWithFlags(&instance, graph, 0), "cuGraphInstantiate");
    must(gpu.cuGraphDestroy(graph), "cuGraphDestroy");
    return instance;
}

void gpu_replay(void *graph, void *stream)
{
    must(gpu.cuGraphLaunch(graph, stream), "cuGraphLaunch");
}

void gpu_graph_free(void *graph)
{
    must(gpu.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
}
