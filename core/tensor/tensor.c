/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor descriptors: names of dtypes and operations, and the one place that decides whether a
 * descriptor makes sense. Descriptors come from callers and frameworks, so nothing in them is
 * believed: every product and every address is checked. Whether the device is one that can be
 * served is the dispatcher's question, not asked here.
 */
#include <tutti/tensor.h>

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "tensor/layout.h"

const uint8_t tensor_dtype_sizes[TENSOR_DTYPE_BYTES][TENSOR_DTYPE_CODES] = {
#define SIZE(NAME, name, code, bits) [(bits) / 8][code] = (bits) / 8,
    TUTTI_DTYPE_LIST(SIZE) TUTTI_MOVED_DTYPE_LIST(SIZE)
#undef SIZE
};

size_t tutti_dtype_size(tutti_dtype dtype)
{
    return tensor_dtype_size(dtype);
}

static const struct {
    tutti_dtype dtype;
    const char *name;
} dtypes[] = {
#define ENTRY(NAME, name, code, bits) {TUTTI_##NAME, name},
    TUTTI_DTYPE_LIST(ENTRY) TUTTI_MOVED_DTYPE_LIST(ENTRY)
#undef ENTRY
};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *tutti_dtype_name(tutti_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "?";
}

tutti_dtype tutti_dtype_parse(const char *name)
{
    for (int i = 0; name && i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return dtypes[i].dtype;
    return 0;
}

const char *tutti_reduce_op_name(tutti_reduce_op op)
{
    switch (op) {
#define CASE(NAME, name, number)                                                                   \
    case TUTTI_##NAME:                                                                             \
        return name;
        TUTTI_REDUCE_OP_LIST(CASE)
#undef CASE
    default:
        return op >= 64 ? "user op" : "?";
    }
}

static tutti_status check_fields(const tutti_tensor *tensor, uint64_t *ret_element)
{
    if (!tensor)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the tensor is NULL");
    if (tensor->ndim < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's ndim is %" PRId32 "; it must not be negative", tensor->ndim);
    if (tensor->ndim > TUTTI_NDIM_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's ndim is %" PRId32 "; %d dimensions are the most",
                         tensor->ndim, TUTTI_NDIM_MAX);
    if (tensor->ndim > 0 && !tensor->shape)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's shape is NULL, but its ndim is %" PRId32, tensor->ndim);
    if (!tensor->dtype)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "no operation takes the tensor's dtype, which is 0: set it "
                         "to TUTTI_F32 or another of <tutti/tensor.h>");
    *ret_element = tensor_dtype_size(tensor->dtype);
    if (*ret_element == 0)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "no operation takes the tensor's dtype (code %u, bits %u, lanes %u)",
                         tensor->dtype & 0xff, tensor->dtype >> 8 & 0xff, tensor->dtype >> 16);
    return TUTTI_OK;
}

/*
 * Elements, and whether they lie in row-major order without gaps. One extent of 0 makes the tensor
 * empty, however large the others are. An extent of 1 is never stepped over: frameworks leave any
 * number as its stride.
 */
static tutti_status count_elements(const tutti_tensor *tensor, struct tensor_size *size)
{
    uint64_t count = 1;
    bool empty = false, overflow = false, contiguous = true;

    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        const int64_t extent = tensor->shape[i];

        if (extent < 0)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "the tensor's shape[%" PRId32 "] is %" PRId64
                             "; it must not be negative",
                             i, extent);
        if (tensor->strides && extent != 1)
            contiguous &= (uint64_t)tensor->strides[i] == count;
        empty |= extent == 0;
        overflow |= __builtin_mul_overflow(count, (uint64_t)extent, &count);
    }
    if (overflow && !empty)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's number of elements does not fit into 64 bits");
    size->count = empty ? 0 : count;
    size->contiguous = contiguous || empty;
    return TUTTI_OK;
}

/* The first and the end of the bytes that strides reach, counted from the first element. */
static bool find_reach(const tutti_tensor *tensor, int64_t *ret_low, int64_t *ret_high)
{
    const int64_t element = (int64_t)tutti_dtype_size(tensor->dtype);
    int64_t low = 0, high = element, stride, far;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 1)
            continue;
        if (__builtin_mul_overflow(tensor->strides[i], element, &stride) ||
            __builtin_mul_overflow(stride, tensor->shape[i] - 1, &far) ||
            __builtin_add_overflow(far < 0 ? low : high, far, far < 0 ? &low : &high))
            return false;
    }
    *ret_low = low;
    *ret_high = high;
    return true;
}

static tutti_status check_memory(const tutti_tensor *tensor, const struct tensor_size *size)
{
    int64_t low = 0, high = (int64_t)size->bytes;
    uint64_t address, end;

    if (!tensor->data)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's data is NULL, but it has %" PRIu64 " bytes", size->bytes);
    if (!size->contiguous && !find_reach(tensor, &low, &high))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's strides reach further than 2^63 bytes");
    if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &address) ||
        __builtin_add_overflow(address, (uint64_t)high, &end) || end > UINTPTR_MAX ||
        address <= 0 - (uint64_t)low)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's byte_offset %" PRIu64 " and its bytes %" PRId64
                         " .. %" PRId64 " reach beyond the address space",
                         tensor->byte_offset, low, high);
    return TUTTI_OK;
}

tutti_status tensor_measure(const tutti_tensor *tensor, struct tensor_size *ret_size)
{
    struct tensor_size size;
    uint64_t element;
    tutti_status status = check_fields(tensor, &element);

    if (status == TUTTI_OK)
        status = count_elements(tensor, &size);
    if (status != TUTTI_OK)
        return status;
    /* Half the address space at most, so that every offset into it is a ptrdiff_t. */
    if (__builtin_mul_overflow(size.count, element, &size.bytes) || size.bytes > PTRDIFF_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the tensor's %" PRIu64 " elements of %s do not fit into memory",
                         size.count, tutti_dtype_name(tensor->dtype));
    if (size.count > 0) {
        status = check_memory(tensor, &size);
        if (status != TUTTI_OK)
            return status;
    }
    *ret_size = size;
    return TUTTI_OK;
}

tutti_status tutti_tensor_measure(const tutti_tensor *tensor, uint64_t *ret_count,
                                  uint64_t *ret_bytes)
{
    struct tensor_size size;
    tutti_status status = tensor_measure(tensor, &size);

    if (status != TUTTI_OK)
        return error_named(status);
    if (ret_count)
        *ret_count = size.count;
    if (ret_bytes)
        *ret_bytes = size.bytes;
    return TUTTI_OK;
}
