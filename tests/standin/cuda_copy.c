/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills, in stream order. As the driver has it, a blocking copy from pageable memory to a device
 * returns once it is staged, if it is short, and one from device to device is not waited for.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#define STAGED ((size_t)64 << 10)

struct copy {
    const char *call;
    uintptr_t to, from; /* from 0: the bytes follow */
    size_t bytes;
};

struct fill {
    const char *call;
    uintptr_t to;
    size_t count, unit;
    unsigned value;
};

static void take_time(size_t bytes)
{
    if (standin_settings.slow_mibs > 0)
        standin_sleep_us((long)(bytes * 1000000 / ((size_t)standin_settings.slow_mibs << 20)));
}

static CUresult run_copy(const void *arguments)
{
    const struct copy *copy = arguments;
    const void *from = copy + 1;
    void *to;
    bool fails;

    pthread_mutex_lock(&standin_lock);
    to = standin_view(copy->call, copy->to, copy->bytes);
    if (copy->from)
        from = standin_view(copy->call, copy->from, copy->bytes);
    fails = standin_fault_copy();
    pthread_mutex_unlock(&standin_lock);
    if (fails)
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    take_time(copy->bytes);
    memmove(to, from, copy->bytes);
    return CUDA_SUCCESS;
}

static CUresult run_fill(const void *arguments)
{
    const struct fill *fill = arguments;
    unsigned char *to;

    pthread_mutex_lock(&standin_lock);
    to = standin_view(fill->call, fill->to, fill->count * fill->unit);
    pthread_mutex_unlock(&standin_lock);
    take_time(fill->count * fill->unit);
    for (size_t i = 0; i < fill->count; i++)
        memcpy(to + i * fill->unit, &fill->value, fill->unit);
    return CUDA_SUCCESS;
}

/* With the lock. A wrong piece ends the process here, where the caller is still on the call stack. */
static void check(const struct copy *copy)
{
    standin_view(copy->call, copy->to, copy->bytes);
    standin_view(copy->call, copy->from, copy->bytes);
}

static CUresult copy_on(const char *call, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                        CUstream handle)
{
    struct copy copy = {call, (uintptr_t)to, (uintptr_t)from, bytes};
    struct CUctx_st *context;
    CUresult result = standin_enter(call, &context);

    if (result || bytes == 0)
        return result ? result : standin_leave(result);
    check(&copy);
    if (standin_is_pageable(copy.to) || standin_is_pageable(copy.from))
        standin_die(call, "%p is pageable memory: an asynchronous copy of it is none",
                    (void *)(standin_is_pageable(copy.to) ? copy.to : copy.from));
    return standin_leave(
        standin_put(standin_stream(call, handle, context), run_copy, &copy, sizeof copy, NULL));
}

static CUresult put_staged(struct CUstream_st *stream, const struct copy *copy)
{
    size_t size = sizeof *copy + copy->bytes;
    struct copy *staged = malloc(size);
    CUresult result;

    *staged = *copy;
    staged->from = 0;
    memcpy(staged + 1, (const void *)copy->from, copy->bytes);
    result = standin_put(stream, run_copy, staged, size, NULL);
    free(staged);
    return result;
}

static CUresult copy_now(const char *call, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    struct copy copy = {call, (uintptr_t)to, (uintptr_t)from, bytes};
    struct CUctx_st *context;
    struct CUstream_st *legacy;
    struct point point = {NULL, 0};
    bool to_device = standin_is_device_address((uintptr_t)to);
    CUresult result = standin_enter(call, &context);

    if (result || bytes == 0)
        return result ? result : standin_leave(result);
    check(&copy);
    legacy = standin_stream(call, NULL, context);
    if (to_device && standin_is_pageable(copy.from) && bytes <= STAGED) {
        result = standin_refuse_implicit(legacy);
        if (result)
            return standin_leave(result);
        standin_wait_legacy(legacy);
        return standin_leave(put_staged(legacy, &copy));
    }
    result = standin_put(legacy, run_copy, &copy, sizeof copy, &point);
    if (result || (to_device && standin_is_device_address(copy.from)))
        return standin_leave(result);
    standin_wait_point(point);
    return standin_leave(context->error);
}

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_now(__func__, to, from, bytes);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_now(__func__, to, (CUdeviceptr)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_now(__func__, (CUdeviceptr)(uintptr_t)to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_now(__func__, to, from, bytes);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_on(__func__, to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream)
{
    return copy_on(__func__, to, (CUdeviceptr)(uintptr_t)from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_on(__func__, (CUdeviceptr)(uintptr_t)to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream)
{
    return copy_on(__func__, to, from, bytes, stream);
}

/* With the lock. */
static void check_owner(const char *call, CUdeviceptr address, struct CUctx_st *context)
{
    const struct range *range = standin_range((uintptr_t)address);

    if (!range || range->context->device != context->device)
        standin_die(call, "%p is not memory of device %d", (void *)(uintptr_t)address,
                    context->device);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t bytes, CUstream stream)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!to_context || !from_context)
        return standin_leave(CUDA_ERROR_INVALID_CONTEXT);
    check_owner(__func__, to, to_context);
    check_owner(__func__, from, from_context);
    result = standin_refuse_captured(standin_stream(__func__, stream, context));
    pthread_mutex_unlock(&standin_lock);
    return result ? result : copy_on(__func__, to, from, bytes, stream);
}

/* In order with all that is on the streams of the three contexts. */
EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                             CUcontext from_context, size_t bytes)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!to_context || !from_context)
        return standin_leave(CUDA_ERROR_INVALID_CONTEXT);
    check_owner(__func__, to, to_context);
    check_owner(__func__, from, from_context);
    standin_wait_context(to_context);
    standin_wait_context(from_context);
    pthread_mutex_unlock(&standin_lock);
    result = copy_on(__func__, to, from, bytes, NULL);
    return result ? result : cuStreamSynchronize(NULL);
}

static CUresult fill_on(const char *call, CUdeviceptr to, unsigned value, size_t unit, size_t count,
                        CUstream handle)
{
    struct fill fill = {call, (uintptr_t)to, count, unit, value};
    struct CUctx_st *context;
    CUresult result = standin_enter(call, &context);

    if (result)
        return result;
    if (standin_is_pageable(fill.to) || fill.to % unit)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    standin_view(call, fill.to, count * unit);
    return standin_leave(
        standin_put(standin_stream(call, handle, context), run_fill, &fill, sizeof fill, NULL));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill_on(__func__, to, value, 1, count, stream);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    return fill_on(__func__, to, value, 4, count, stream);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill_on(__func__, to, value, 1, count, NULL);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
    return fill_on(__func__, to, value, 4, count, NULL);
}
