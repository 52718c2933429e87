/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What strides make of a tensor's memory.
 *
 * Element k of a tensor is the k-th in row-major order of its shape, whatever its strides are, and
 * that is the element which meets the other members' element k: how a member keeps its elements is
 * its own affair. So memory is used as it lies only when it is C-contiguous; any other layout is
 * packed before the operation and unpacked after it (packed.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tensor.h>

struct tensor_size {
    uint64_t count; /* elements */
    uint64_t bytes; /* of the elements, without what lies between them */
    bool contiguous;
};

enum { TENSOR_DTYPE_BYTES = 32, TENSOR_DTYPE_CODES = 16 };

/* Bytes of an element, by the bytes and the code that its dtype names; 0: there is no such dtype. */
extern const uint8_t tensor_dtype_sizes[TENSOR_DTYPE_BYTES][TENSOR_DTYPE_CODES];

/* tutti_dtype_size(). Asked for several times in each call, so without a branch for each dtype. */
static inline size_t tensor_dtype_size(tutti_dtype dtype)
{
    const uint32_t in_table =
        (uint32_t)(TENSOR_DTYPE_BYTES - 1) << 11 | (uint32_t)(TENSOR_DTYPE_CODES - 1);
    const uint32_t bytes = dtype >> 11 & (TENSOR_DTYPE_BYTES - 1);
    const uint32_t code = dtype & (TENSOR_DTYPE_CODES - 1);

    /* One lane, whole bytes, and a code that is in the table. */
    return (dtype & ~in_table) == UINT32_C(1) << 16 ? tensor_dtype_sizes[bytes][code] : 0;
}

/*
 * Measures the tensor of most calls: one dimension, its elements side by side from `data` on. False: it takes
 * tensor_measure(), which finds out about every other tensor, and about what is not valid.
 */
static inline bool tensor_measure_vector(const tutti_tensor *tensor, uint64_t *ret_count,
                                         uint64_t *ret_bytes)
{
    static const uint64_t longest = UINT64_C(1) << 40; /* elements: no sum below overflows */

    if (tensor->ndim != 1 || !tensor->shape || !tensor->data || tensor->byte_offset ||
        (tensor->strides && tensor->strides[0] != 1))
        return false;

    const uint64_t count = (uint64_t)tensor->shape[0]; /* a negative one is too long */
    const uint64_t element = tensor_dtype_size(tensor->dtype), bytes = count * element;
    if (count - 1 >= longest || !element || (uintptr_t)tensor->data > UINTPTR_MAX - bytes)
        return false;
    *ret_count = count;
    *ret_bytes = bytes;
    return true;
}

/* Checks the descriptor; what it says afterwards is safe to compute with and to address. */
tutti_status tensor_measure(const tutti_tensor *tensor, struct tensor_size *ret_size);

/*
 * A tensor with elements has at most 62 dimensions that are longer than 1, whatever its rank: it has
 * less than 2^63 elements.
 */
enum { TENSOR_DIMENSIONS = 62 };

struct tensor_dimension {
    int64_t extent;
    int64_t stride; /* in bytes */
};

/* The tensor's dimensions in their order, without those of extent 1, and with neighbours joined
 * that are one run of equal steps. A copy: it does not refer to the caller's shape and strides. */
struct tensor_view {
    char *first; /* the element whose indices are all 0 */
    uint64_t bytes;
    uint32_t element_bytes;
    int dimensions;
    struct tensor_dimension dimension[TENSOR_DIMENSIONS];
};

/* Fills in the view of a tensor that was measured and has elements. */
void tensor_view(const tutti_tensor *tensor, const struct tensor_size *size,
                 struct tensor_view *ret_view);

/*
 * Whether no two elements can share a byte. Sorted by the length of their steps, each dimension must
 * step over everything that the shorter ones reach; this holds for what slicing, transposing and
 * flipping make of an array. Strides that interleave without it are not told from strides that
 * collide, which would take a search.
 */
bool tensor_view_is_distinct(const struct tensor_view *view);

/* Between the view's elements and `view->bytes` bytes in row-major order. */
void tensor_pack(const struct tensor_view *view, void *to);
void tensor_unpack(const struct tensor_view *view, const void *from);
