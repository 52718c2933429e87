/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What is used of the driver. Each function returns 0, or the number of an error. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuGetErrorName, (int error, const char **ret_name))                                          \
    X(cuDeviceGetCount, (int *ret_count))                                                          \
    X(cuDeviceGet, (int *ret_device, int number))                                                  \
    X(cuDevicePrimaryCtxRetain, (void **ret_context, int device))                                  \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuMemAlloc_v2, (uint64_t * ret_address, size_t bytes))                                       \
    X(cuMemFree_v2, (uint64_t address))                                                            \
    X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))                              \
    X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))

struct gpu {
#define MEMBER(name, arguments) int(*name) arguments;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
    int number, device;
    bool is_taken;
    uint64_t place; /* 0: none yet */
    size_t count;   /* floats that it has room for */
};

static bool did(const struct gpu *gpu, int error, const char *doing, struct failure *why)
{
    const char *name = NULL;

    if (error && gpu->cuGetErrorName(error, &name))
        name = NULL;
    return !error || failure_set(why, "cannot %s on the GPU: %s (%d)", doing,
                                 name ? name : "an unknown error", error);
}

/* The library that tutti opens, too. It is never closed: the driver cannot be. */
static bool load(struct gpu *gpu, struct failure *why)
{
    const char *name = getenv("TUTTI_CUDA");

    if (!name || !*name)
        name = "libcuda.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return failure_set(why, "there is no CUDA driver: %s", dlerror());
#define FIND(function, arguments)                                                                  \
    *(void **)(void *)&gpu->function = dlsym(library, #function);                                  \
    if (!gpu->function)                                                                            \
        return failure_set(why, "%s has no function %s", name, #function);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    return did(gpu, gpu->cuInit(0), "begin", why);
}

/* By the number behind the colon. tutti_init() has refused what is no name of a device here. */
static bool choose(struct gpu *gpu, const char *device, int local_rank, struct failure *why)
{
    const char *colon = strchr(device, ':');
    int count;

    if (!did(gpu, gpu->cuDeviceGetCount(&count), "count devices", why))
        return false;
    if (count < 1)
        return failure_set(why, "the CUDA driver has no device");
    gpu->number = colon ? atoi(colon + 1) : local_rank % count;
    return true;
}

static bool take(struct gpu *gpu, struct failure *why)
{
    void *context;

    if (!did(gpu, gpu->cuDeviceGet(&gpu->device, gpu->number), "find the device", why) ||
        !did(gpu, gpu->cuDevicePrimaryCtxRetain(&context, gpu->device), "make a context", why))
        return false;
    gpu->is_taken = true;
    return did(gpu, gpu->cuCtxSetCurrent(context), "use the context", why);
}

bool gpu_open(const char *device, int local_rank, struct gpu **ret_gpu, struct failure *why)
{
    struct gpu *gpu = calloc(1, sizeof *gpu);

    if (!gpu)
        return failure_set(why, "no memory for the GPU's functions");
    if (!load(gpu, why) || !choose(gpu, device, local_rank, why) || !take(gpu, why)) {
        gpu_close(gpu);
        return false;
    }
    *ret_gpu = gpu;
    return true;
}

void gpu_close(struct gpu *gpu)
{
    if (!gpu)
        return;
    if (gpu->place)
        gpu->cuMemFree_v2(gpu->place);
    if (gpu->is_taken) {
        gpu->cuCtxSetCurrent(NULL);
        gpu->cuDevicePrimaryCtxRelease_v2(gpu->device);
    }
    free(gpu);
}

int gpu_number(const struct gpu *gpu)
{
    return gpu->number;
}

bool gpu_put(struct gpu *gpu, const float *values, size_t count, void **ret_place,
             struct failure *why)
{
    const size_t bytes = count * sizeof *values;

    if (gpu->count != count) {
        if (gpu->place)
            gpu->cuMemFree_v2(gpu->place);
        gpu->place = 0;
        gpu->count = 0;
        if (!did(gpu, gpu->cuMemAlloc_v2(&gpu->place, bytes), "get memory", why))
            return false;
        gpu->count = count;
    }
    if (!did(gpu, gpu->cuMemcpyHtoD_v2(gpu->place, values, bytes), "put the gradients", why))
        return false;
    *ret_place = (void *)(uintptr_t)gpu->place;
    return true;
}

bool gpu_get(struct gpu *gpu, float *ret_values, size_t count, struct failure *why)
{
    return did(gpu, gpu->cuMemcpyDtoH_v2(ret_values, gpu->place, count * sizeof *ret_values),
               "read the gradients", why);
}
