/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL as tutti's plugin calls it, on a stream of this rank's GPU: a non-blocking communicator of its own, whose id rank 0
 * tells the others through tutti. The libraries are those of TUTTI_NCCL and TUTTI_CUDA. Messages of tutti do not go by
 * NCCL, so there are none. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"
#include "nccl/nccl_api.h"

const char direct_backend[] = "nccl";

/* The part of the driver API that is used; all return 0 or what failed. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(int, cuInit, (unsigned flags))                                                               \
    X(int, cuDeviceGetCount, (int *count))                                                         \
    X(int, cuDevicePrimaryCtxRetain, (void **context, int device))                                 \
    X(int, cuCtxSetCurrent, (void *context))                                                       \
    X(int, cuMemAlloc_v2, (uint64_t * memory, size_t bytes))                                       \
    X(int, cuMemcpy, (uint64_t to, uint64_t from, size_t bytes))                                   \
    X(int, cuMemFree_v2, (uint64_t memory))                                                        \
    X(int, cuStreamCreate, (void **stream, unsigned flags))                                        \
    X(int, cuStreamSynchronize, (void *stream))

enum { STREAM_NON_BLOCKING = 1 };

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct {
    DRIVER_FUNCTIONS(MEMBER)
} cuda;
static struct {
    NCCL_FUNCTIONS(MEMBER)
} nccl;

static ncclComm_t comm;
static struct direct_place place;

static void check(bool fine, const char *what, const char *words)
{
    if (fine)
        return;
    fprintf(stderr, "%s failed: %s\n", what, words);
    exit(1);
}

static void check_cuda(int result, const char *what)
{
    char words[32];

    snprintf(words, sizeof words, "CUDA's error %d", result);
    check(!result, what, words);
}

/* A call that is in progress is on its stream soon. */
static void check_nccl(ncclResult_t result, const char *what)
{
    while (result == ncclInProgress)
        if (nccl.ncclCommGetAsyncError(comm, &result))
            break;
    check(!result, what, nccl.ncclGetErrorString(result));
}

static void *open_library(const char *variable, const char *name)
{
    const char *path = getenv(variable);
    void *handle = dlopen(path && *path ? path : name, RTLD_NOW | RTLD_LOCAL);

    check(handle, name, handle ? "" : dlerror());
    return handle;
}

static void load(void)
{
    void *libraries[] = {open_library("TUTTI_CUDA", "libcuda.so.1"),
                         open_library("TUTTI_NCCL", "libnccl.so.2")};
    void *address;

#define FIND(of, library, name)                                                                    \
    address = dlsym(library, #name);                                                               \
    check(address, #name, "it is not in the library");                                             \
    memcpy(&(of).name, &address, sizeof address);
#define FIND_CUDA(result, name, parameters) FIND(cuda, libraries[0], name)
#define FIND_NCCL(result, name, parameters) FIND(nccl, libraries[1], name)
    DRIVER_FUNCTIONS(FIND_CUDA)
    NCCL_FUNCTIONS(FIND_NCCL)
}

/* ---- the GPU ---------------------------------------------------------------------------------- */

static void *allocate(size_t bytes)
{
    uint64_t memory;
    void *zeros = calloc(1, bytes);

    check(zeros, "memory", "there is none");
    check_cuda(cuda.cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
    check_cuda(cuda.cuMemcpy(memory, (uint64_t)(uintptr_t)zeros, bytes), "cuMemcpy");
    free(zeros);
    return (void *)(uintptr_t)memory;
}

static void release(void *memory)
{
    check_cuda(cuda.cuMemFree_v2((uint64_t)(uintptr_t)memory), "cuMemFree");
}

static void finish(void)
{
    check_cuda(cuda.cuStreamSynchronize(place.stream), "cuStreamSynchronize");
}

/* The GPU that tutti takes for this rank by default. */
static void take_gpu(int local_rank)
{
    void *context;
    int count;

    check_cuda(cuda.cuInit(0), "cuInit");
    check_cuda(cuda.cuDeviceGetCount(&count), "cuDeviceGetCount");
    check(count > 0, "cuDeviceGetCount", "there is no GPU");
    place = (struct direct_place){.device = {TUTTI_DEVICE_CUDA, local_rank % count},
                                  .allocate = allocate,
                                  .release = release,
                                  .finish = finish};
    check_cuda(cuda.cuDevicePrimaryCtxRetain(&context, place.device.id),
               "cuDevicePrimaryCtxRetain");
    check_cuda(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check_cuda(cuda.cuStreamCreate(&place.stream, STREAM_NON_BLOCKING), "cuStreamCreate");
    direct_place = &place;
}

/* ---- operations -------------------------------------------------------------------------------- */

static void all_reduce(float *data, size_t count)
{
    check_nccl(nccl.ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, place.stream),
               "ncclAllReduce");
}

static void broadcast(float *data, size_t count, int root)
{
    check_nccl(
        nccl.ncclBroadcast(data, data, count * sizeof *data, ncclInt8, root, comm, place.stream),
        "ncclBroadcast");
}

static const struct direct forms[] = {
    {"NCCL", all_reduce, broadcast, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static void tell_id(tutti_group *world, ncclUniqueId *id)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(id, TUTTI_U8, &shape, sizeof *id);

    check(!tutti_broadcast(world, &tensor, 0, NULL, NULL), "telling the id", tutti_last_error());
}

const struct direct *direct_open(tutti_group *world)
{
    ncclConfig_t config = NCCL_CONFIG(0);
    const int rank = tutti_group_rank(world);
    const char *local = getenv("LOCAL_RANK");
    ncclUniqueId id;

    load();
    take_gpu(local ? atoi(local) : rank);
    if (rank == 0)
        check_nccl(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    tell_id(world, &id);
    check_nccl(nccl.ncclCommInitRankConfig(&comm, tutti_group_size(world), id, rank, &config),
               "ncclCommInitRankConfig");
    return forms;
}

void direct_close(void)
{
    check_nccl(nccl.ncclCommFinalize(comm), "ncclCommFinalize");
    check_nccl(nccl.ncclCommDestroy(comm), "ncclCommDestroy");
}
