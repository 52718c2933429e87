/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver says about an address.
 */
#include "cuda.h"

#include <string.h>

enum attribute {
    ATTRIBUTE_CONTEXT = 1,
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_DEVICE_POINTER = 3,
    ATTRIBUTE_HOST_POINTER = 4,
    ATTRIBUTE_SYNC_MEMOPS = 6,
    ATTRIBUTE_BUFFER_ID = 7,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
    ATTRIBUTE_RANGE_START_ADDR = 11,
    ATTRIBUTE_RANGE_SIZE = 12,
    ATTRIBUTE_MAPPED = 13,
};

/* Writes what is asked about memory that is known, or the value that stands for «unknown» (range NULL). */
static CUresult write(const struct range *range, uintptr_t address, CUpointer_attribute attribute,
                      void *ret)
{
    bool host = !range || range->kind != MEMORY_DEVICE;
    void *pointer = range ? (void *)address : NULL;

    switch ((enum attribute)attribute) {
    case ATTRIBUTE_CONTEXT:
        *(CUcontext *)ret = range ? range->context : NULL;
        return CUDA_SUCCESS;
    case ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)ret = !range ? 0
                           : range->kind == MEMORY_DEVICE || range->kind == MEMORY_MANAGED
                               ? CU_MEMORYTYPE_DEVICE
                               : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_POINTER:
        *(void **)ret = pointer;
        return CUDA_SUCCESS;
    case ATTRIBUTE_HOST_POINTER:
        *(void **)ret = host ? (void *)address : NULL;
        return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)ret = 0;
        return CUDA_SUCCESS;
    case ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)ret = range ? range->id : 0;
        return CUDA_SUCCESS;
    case ATTRIBUTE_IS_MANAGED:
        *(unsigned *)ret = range && range->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)ret = range ? range->context->device : -2;
        return CUDA_SUCCESS;
    case ATTRIBUTE_RANGE_START_ADDR:
        *(void **)ret = range ? (void *)range->start : NULL;
        return CUDA_SUCCESS;
    case ATTRIBUTE_RANGE_SIZE:
        if (range)
            *(size_t *)ret = range->bytes;
        return CUDA_SUCCESS;
    case ATTRIBUTE_MAPPED:
        *(unsigned *)ret = range != NULL;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttribute(void *ret, CUpointer_attribute attribute, CUdeviceptr address)
{
    const struct range *range;
    CUresult result = standin_initialised();

    if (result)
        return result;
    pthread_mutex_lock(&standin_lock);
    range = standin_range((uintptr_t)address);
    result = range ? write(range, (uintptr_t)address, attribute, ret) : CUDA_ERROR_INVALID_VALUE;
    return standin_leave(result);
}

/* An unknown address is no error here. */
EXPORT CUresult cuPointerGetAttributes(unsigned number, CUpointer_attribute *attributes,
                                       void **ret_data, CUdeviceptr address)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (standin_in_callback())
        return CUDA_ERROR_NOT_PERMITTED;
    if (!number || !attributes || !ret_data)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    for (unsigned i = 0; i < number; i++) {
        const struct range *range = standin_range((uintptr_t)address);

        if (write(range, (uintptr_t)address, attributes[i], ret_data[i]) &&
            attributes[i] != (CUpointer_attribute)ATTRIBUTE_HOST_POINTER)
            return standin_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_start, size_t *ret_bytes,
                                        CUdeviceptr address)
{
    struct CUctx_st *context;
    const struct range *range;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    range = standin_range((uintptr_t)address);
    if (!range || range->kind == MEMORY_MANAGED)
        return standin_leave(CUDA_ERROR_NOT_FOUND);
    if (ret_start)
        *ret_start = range->start;
    if (ret_bytes)
        *ret_bytes = range->bytes;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_address, void *memory, unsigned flags)
{
    struct CUctx_st *context;
    const struct range *range;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    range = standin_range((uintptr_t)memory);
    if (flags || !range || range->kind == MEMORY_DEVICE || range->kind == MEMORY_MANAGED)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *ret_address = (CUdeviceptr)(uintptr_t)memory;
    return standin_leave(CUDA_SUCCESS);
}
