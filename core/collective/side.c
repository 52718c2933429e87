/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>

#include "base/error.h"
#include "collective/side.h"

/* Room for the pointers and sizes of a side. */
static tutti_status take_tables(const struct tutti_group *group, struct collective *c,
                                void ***ret_each, uint64_t **ret_sizes)
{
    const size_t n = (size_t)group->size;
    uint64_t *table = chain_allocate(&c->memory, n * (sizeof(void *) + sizeof *table));

    if (!table)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the blocks of %zu members", n);
    *ret_sizes = table;
    *ret_each = (void **)(void *)(table + n);
    return TUTTI_OK;
}

tutti_status side_vector(struct tutti_group *group, struct collective *c,
                         const tutti_tensor *tensor, const char *what, enum tensor_use use,
                         struct side *ret_side)
{
    uint64_t count, bytes;
    void *data;

    tutti_status status = call_tensor(group, tensor, what, use, &c->packed, &data, &count, &bytes);
    if (status)
        return status;
    *ret_side = (struct side){.what = what,
                              .blocks.base = data,
                              .dtype = tensor->dtype,
                              .element = tutti_dtype_size(tensor->dtype),
                              .count = count,
                              .total = count};
    return TUTTI_OK;
}

static tutti_status even_blocks(struct tutti_group *group, struct collective *c,
                                const tutti_tensor *tensor, const char *what, enum tensor_use use,
                                struct side *ret_side)
{
    struct side side;

    tutti_status status = side_vector(group, c, tensor, what, use, &side);
    if (status)
        return status;
    if (side.total % (uint64_t)group->size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s has %llu elements, which is not a multiple of %d members; use the _v "
                         "form, with counts",
                         what, (unsigned long long)side.total, group->size);
    side.count = side.total / (uint64_t)group->size;
    side.blocks.stride = side.count * side.element;
    *ret_side = side;
    return TUTTI_OK;
}

static tutti_status listed_blocks(struct tutti_group *group, struct collective *c,
                                  const tutti_tensor *const *tensors, const char *what,
                                  enum tensor_use use, struct side *ret_side)
{
    struct side side = {.what = what};
    void **each = NULL;

    if (!tensors)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s: the list of tensors is NULL", what);
    tutti_status status = take_tables(group, c, &each, &side.sizes);
    if (status)
        return status;
    for (int i = 0; i < group->size; i++) {
        uint64_t count;

        status =
            call_tensor(group, tensors[i], what, use, &c->packed, &each[i], &count, &side.sizes[i]);
        if (status)
            return status;
        if (i == 0) {
            side.dtype = tensors[i]->dtype;
            side.element = tutti_dtype_size(side.dtype);
            side.count = count;
        }
        if (tensors[i]->dtype != side.dtype)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s: tensor 0 of the list is %s, tensor %d is %s", what,
                             tutti_dtype_name(side.dtype), i, tutti_dtype_name(tensors[i]->dtype));
        side.uneven = side.uneven || count != side.count;
        side.total += count;
    }
    if (side.uneven && c->fields.root >= 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s: the tensors of the list differ in size; use the _v form, with counts",
                         what);
    side.blocks.each = each;
    *ret_side = side;
    return TUTTI_OK;
}

static tutti_status counted_blocks(struct tutti_group *group, struct collective *c,
                                   const struct form *form, const char *what, enum tensor_use use,
                                   struct side *ret_side)
{
    const int64_t *counts = form->counts, *offsets = form->offsets;
    struct side side;
    uint64_t next = 0;
    void **each = NULL;

    if (use & TENSOR_WRITTEN) /* a stand-in is written back whole, with what lies between blocks */
        use = TENSOR_BOTH;
    tutti_status status = side_vector(group, c, form->tensor, what, use, &side);
    if (!status && !counts)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s: counts is NULL", what);
    if (!status)
        status = take_tables(group, c, &each, &side.sizes);
    if (status)
        return status;
    const uint64_t elements = side.total, element = side.element;

    side.total = 0;
    side.uneven = true;
    for (int i = 0; i < group->size; i++) {
        const uint64_t count = (uint64_t)counts[i];
        const uint64_t offset = offsets ? (uint64_t)offsets[i] : next;

        if (counts[i] < 0 || (offsets && offsets[i] < 0) || offset > elements ||
            count > elements - offset)
            return error_set(
                TUTTI_ERR_INVALID_ARGUMENT,
                "%s: the block of rank %d, %lld elements at offset %lld, does not lie in the "
                "tensor, which has %llu",
                what, i, (long long)counts[i], (long long)offset, (unsigned long long)elements);
        side.sizes[i] = count * element;
        each[i] = (char *)side.blocks.base + offset * element;
        side.total += count;
        next = offset + count;
    }
    side.blocks.each = each;
    *ret_side = side;
    return TUTTI_OK;
}

tutti_status side_blocks(struct tutti_group *group, struct collective *c, const struct form *form,
                         const char *what, enum tensor_use use, struct side *ret_side)
{
    switch (form->kind) {
    case FORM_LIST:
        return listed_blocks(group, c, form->tensors, what, use, ret_side);
    case FORM_COUNTS:
        return counted_blocks(group, c, form, what, use, ret_side);
    default:
        return even_blocks(group, c, form->tensor, what, use, ret_side);
    }
}

void side_describe(struct collective *c, const struct tutti_group *group, int which,
                   const struct side *blocks, uint64_t own)
{
    c->fields.dtype = blocks->dtype;
    c->bytes = own * blocks->element;
    if (!blocks->uneven) {
        c->fields.count = blocks->count;
        return;
    }
    c->fields.flags |= CALL_UNEVEN;
    c->sizes.own = c->bytes;
    *(which == SIDE_IN ? &c->sizes.in : &c->sizes.out) = blocks->sizes;
    if (!operation_shares_sizes(c->fields.operation))
        return;
    c->fields.count = blocks->total;
    c->fields.sizes =
        (uint16_t)(XXH3_64bits(blocks->sizes, (size_t)group->size * sizeof(uint64_t)) | 1);
}

tutti_status side_same_dtype(const struct side *a, const struct side *b)
{
    if (a->dtype == b->dtype)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is %s, %s is %s", a->what,
                     tutti_dtype_name(a->dtype), b->what, tutti_dtype_name(b->dtype));
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

struct extent {
    const char *from, *to;
    int block;
};

static int by_address(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

/* The blocks that have bytes, in the order of the ranks; whether they lie in memory in that order. */
static bool extents_of(const struct tutti_group *group, const struct side *blocks,
                       struct extent *ret_extents, int *ret_count)
{
    const char *end = NULL;
    bool rising = true;

    *ret_count = 0;
    for (int i = 0; i < group->size; i++) {
        const char *at = blocks->blocks.each[i];

        if (!blocks->sizes[i])
            continue;
        rising = rising && at >= end;
        end = at + blocks->sizes[i];
        if (ret_extents)
            ret_extents[*ret_count] = (struct extent){at, end, i};
        ++*ret_count;
    }
    return rising;
}

tutti_status side_check_distinct(const struct tutti_group *group, struct collective *c,
                                 const struct side *blocks)
{
    int count;

    if (!blocks->blocks.each || extents_of(group, blocks, NULL, &count))
        return TUTTI_OK;
    struct extent *extents = chain_allocate(&c->memory, (size_t)count * sizeof *extents);
    if (!extents)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to compare %d blocks", count);
    extents_of(group, blocks, extents, &count);
    qsort(extents, (size_t)count, sizeof *extents, by_address);
    for (int i = 1; i < count; i++) {
        const int a = extents[i - 1].block, b = extents[i].block;

        if (extents[i].from < extents[i - 1].to)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s: blocks %d and %d overlap; each needs memory of its own",
                             blocks->what, a < b ? a : b, a < b ? b : a);
    }
    return TUTTI_OK;
}

tutti_status side_check_overlap(const struct tutti_group *group, const struct side *vector,
                                const struct side *blocks, int block)
{
    const uint64_t element = blocks->element, bytes = vector->count * element;
    const char *at = vector->blocks.base;
    /* One tensor of equal blocks is looked at as a whole, unless the vector is its own block. */
    const int n = blocks->blocks.each ? group->size : 1;

    if (at == (const char *)block_at(&blocks->blocks, (uint32_t)block))
        return TUTTI_OK;
    for (int i = 0; i < n; i++) {
        const uint64_t size = blocks->sizes ? blocks->sizes[i] : blocks->total * element;

        if (overlap(at, bytes, block_at(&blocks->blocks, (uint32_t)i), size))
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s and %s overlap; to work in place, pass exactly block %d",
                             vector->what, blocks->what, block);
    }
    return TUTTI_OK;
}

tutti_status side_check_pair(const struct tutti_group *group, struct collective *c, int which,
                             const struct side *vector, const struct side *blocks)
{
    const bool out = which == SIDE_OUT;
    const uint64_t count = side_block_count(blocks, group->rank);
    tutti_status status = out ? side_same_dtype(vector, blocks) : side_same_dtype(blocks, vector);

    if (!status && vector->count != count)
        status =
            error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s has %llu elements, block %d of %s has %llu",
                      vector->what, (unsigned long long)vector->count, group->rank, blocks->what,
                      (unsigned long long)count);
    if (!status && out)
        status = side_check_distinct(group, c, blocks);
    return status ? status : side_check_overlap(group, vector, blocks, group->rank);
}
