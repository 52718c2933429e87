/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, packing and arithmetic: each call puts one copy or one kernel on the caller's stream. */
#include <string.h>

#include "inside.h"

enum { OPERANDS_MOST = 1 << 16, FACTOR_BYTES = 16 };

static uint64_t dtype_bytes(uint32_t dtype)
{
    return ((dtype >> 8 & 0xff) + 7) / 8;
}

tutti_status work_copy(tutti_accelerator *accelerator, void *stream, void *dst, const void *src,
                       uint64_t bytes)
{
    if (bytes == 0)
        return TUTTI_OK;
    const CUresult result =
        IN_CONTEXT(accelerator, cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst,
                                              (CUdeviceptr)(uintptr_t)src, bytes, stream));
    return result ? driver_fails(accelerator->driver, result, accelerator->words,
                                 "copying %llu bytes from %p to %p", (unsigned long long)bytes, src,
                                 dst)
                  : TUTTI_OK;
}

/* ---- packing --- */

static tutti_status check_view(const tutti_accelerator *accelerator, const tutti_device_view *view,
                               uint64_t begin, uint64_t count)
{
    uint64_t elements = 1;
    bool valid = view->struct_size >= sizeof *view && view->dimensions <= TUTTI_VIEW_DIMENSIONS &&
                 view->element_bytes && view->element_bytes <= 16 &&
                 (view->element_bytes & (view->element_bytes - 1)) == 0;

    for (uint32_t i = 0; valid && i < view->dimensions; i++)
        valid = view->extent[i] > 0 &&
                !__builtin_mul_overflow(elements, (uint64_t)view->extent[i], &elements);
    if (valid && begin <= elements && count <= elements - begin)
        return TUTTI_OK;
    return driver_refuses(accelerator->driver, TUTTI_ERR_INVALID_ARGUMENT,
                          "%s: elements %llu to %llu of a view of %llu elements of %u bytes in %u "
                          "dimensions cannot be packed",
                          accelerator->words, (unsigned long long)begin,
                          (unsigned long long)begin + count, (unsigned long long)elements,
                          view->element_bytes, view->dimensions);
}

static tutti_status pack(tutti_accelerator *accelerator, void *stream, void *packed,
                         const tutti_device_view *view, uint64_t begin, uint64_t count, bool unpack)
{
    tutti_status status = check_view(accelerator, view, begin, count);
    struct kernel_pack arguments;
    struct kernel_id id;

    if (status || count == 0)
        return status;
    const struct kernel_view strided = {view->first, view->element_bytes, view->dimensions,
                                        view->extent, view->stride};
    kernel_find_pack(&strided, packed, begin, count, unpack, &arguments, &id);
    return kernel_launch(accelerator, stream, &id, count * view->element_bytes, &arguments);
}

tutti_status work_pack(tutti_accelerator *accelerator, void *stream, void *packed,
                       const tutti_device_view *view, uint64_t begin, uint64_t count)
{
    return pack(accelerator, stream, packed, view, begin, count, false);
}

tutti_status work_unpack(tutti_accelerator *accelerator, void *stream,
                         const tutti_device_view *view, const void *packed, uint64_t begin,
                         uint64_t count)
{
    return pack(accelerator, stream, (void *)(uintptr_t)packed, view, begin, count, true);
}

/* ---- arithmetic --- */

tutti_status work_reduce(tutti_accelerator *accelerator, void *stream,
                         const tutti_device_reduction *what)
{
    struct kernel_id id;

    if (what->struct_size < sizeof *what || what->operands < 1 || what->operands > OPERANDS_MOST ||
        what->flags & ~(uint32_t)TUTTI_REDUCTION_FIXED_ORDER)
        return driver_refuses(accelerator->driver, TUTTI_ERR_INVALID_ARGUMENT,
                              "%s: a reduction of %u operands with the flags 0x%x cannot be done; "
                              "1 to %d operands are possible",
                              accelerator->words, what->operands, what->flags, OPERANDS_MOST);
    if (!kernel_find_reduce(what->dtype, what->op, &id))
        return driver_refuses(accelerator->driver, TUTTI_ERR_UNSUPPORTED,
                              "%s: there is no reduction %d of dtype 0x%x", accelerator->words,
                              what->op, what->dtype);
    /* Others are finished as they are, and a kernel would make NaNs of small floats quiet. */
    const uint32_t members = what->op == TUTTI_AVG || what->dtype == TUTTI_BOOL ? what->members : 0;
    const uint64_t bytes = what->count * dtype_bytes(what->dtype);
    if (what->operands == 1 && !members)
        return what->dst == what->first
                   ? TUTTI_OK
                   : work_copy(accelerator, stream, what->dst, what->first, bytes);
    if (what->count == 0)
        return TUTTI_OK;
    struct kernel_reduce arguments = {
        .dst = what->dst,
        .first = what->first,
        .rest = what->rest,
        .count = what->count,
        .stride = what->stride,
        .operands = what->operands,
        .members = members,
        .fixed_order = what->flags & TUTTI_REDUCTION_FIXED_ORDER ? 1 : 0,
    };
    return kernel_launch(accelerator, stream, &id, bytes, &arguments);
}

tutti_status work_scale(tutti_accelerator *accelerator, void *stream, uint32_t dtype, void *dst,
                        const void *a, uint64_t count, const void *factor, int32_t on_device)
{
    struct kernel_scale arguments = {.dst = dst, .src = a, .count = count};
    struct kernel_id id;

    if (!kernel_find_scale(dtype, &id))
        return driver_refuses(accelerator->driver, TUTTI_ERR_UNSUPPORTED,
                              "%s: elements of dtype 0x%x cannot be multiplied by a factor",
                              accelerator->words, dtype);
    if (count == 0)
        return TUTTI_OK;
    if (on_device)
        arguments.factor = factor;
    else
        memcpy(arguments.value, factor, dtype_bytes(dtype));
    return kernel_launch(accelerator, stream, &id, count * dtype_bytes(dtype), &arguments);
}

tutti_status work_prepare(tutti_accelerator *accelerator, uint32_t dtype)
{
    struct kernel_id id = {.module = KERNEL_MODULE_move};

    if (dtype && !kernel_find_reduce(dtype, TUTTI_SUM, &id) &&
        !kernel_find_reduce(dtype, TUTTI_MIN, &id))
        return driver_refuses(accelerator->driver, TUTTI_ERR_UNSUPPORTED,
                              "%s: there are no reductions of dtype 0x%x", accelerator->words,
                              dtype);
    return kernel_load(accelerator, id.module);
}
