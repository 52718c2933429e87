/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PREMUL_SUM: a factor is read when the operation is made, wherever it lies. A call multiplies when it is made, and the
 * rest of it is a sum. Tensors that an engine takes on their device are multiplied there, in the order of the stream.
 */
#include <tutti/reduce.h>

#include "base/error.h"
#include "collective/side.h"
#include "device/device.h"
#include "reduce/op.h"
#include "tensor/layout.h"

/* A factor is an input: it may be read-only. */
static tutti_status read_factor(const tutti_tensor *factor, const struct tensor_size *size,
                                void *to)
{
    const int32_t given = factor->device.type & ~TUTTI_DEVICE_READ_ONLY;
    const int32_t type = device_type_of(given);
    const struct device_tensor on_device = {factor, size, "the factor", TENSOR_READ,
                                            NULL,   0,    false};
    struct tensor_view view;
    struct device *device;

    if (given == TUTTI_DEVICE_CPU || given == TUTTI_DEVICE_CUDA_HOST) {
        tensor_view(factor, size, &view);
        tensor_pack(&view, to);
        return TUTTI_OK;
    }
    if (!type)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "the factor is on a device of type %d, which this libtutti does not know",
                         given);
    tutti_status status = device_open(type, factor->device.id, 0, &device);
    if (!status)
        status = device_check_place(device, factor, size, "the factor");
    if (!status)
        status = device_check_stream(device, NULL);
    return status ? status : device_read(device, &on_device, to);
}

tutti_status tutti_reduce_op_premul(const tutti_tensor *factor, tutti_reduce_op *ret_op)
{
    if (!ret_op)
        return error_named(error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_op is NULL"));
    return error_named(reduce_op_make_premul(factor, read_factor, ret_op));
}

/* ---- products ---- */

/* Memory for them, which is the call's. */
static tutti_status make_room(struct tutti_group *group, struct collective *c, uint64_t bytes,
                              void **ret_room)
{
    if (c->packed.is_direct)
        return device_row(atomic_load(&group->device), c->packed.stream, 0,
                          &(struct device_block){NULL, bytes}, 1, &c->packed.first, ret_room);
    *ret_room = chain_allocate(&c->memory, bytes);
    return *ret_room ? TUTTI_OK
                     : error_set(TUTTI_ERR_NO_MEMORY,
                                 "no memory for the %llu bytes of the products of premul_sum",
                                 (unsigned long long)bytes);
}

/* On the host, once the stand-ins of tensors on devices are filled. */
static tutti_status multiply_here(struct tutti_group *group, struct collective *c,
                                  const struct side *in, void *const *to, int blocks)
{
    const tutti_status status = call_await_stand_ins(group, c->packed.first, c->timeout_ms);
    uint64_t first = 0;

    for (int i = 0; i < blocks && !status; i++) {
        const uint64_t count = side_block_count(in, i);

        reduce_op_multiply(c->op, to[i], block_at(&in->blocks, (uint32_t)i), first, count);
        first += count;
    }
    return status;
}

struct multiplying {
    struct device *device;
    struct device_products products;
};

static tutti_status is_multiplied(void *user)
{
    const struct multiplying *m = user;

    return device_multiply(m->device, &m->products);
}

static tutti_status multiply_on_device(struct tutti_group *group, struct collective *c,
                                       const struct side *in, void *const *to, int blocks)
{
    struct multiplying m = {atomic_load(&group->device),
                            {.stream = c->packed.stream, .dtype = in->dtype}};
    tutti_status status = TUTTI_OK;
    uint64_t first = 0;

    for (int i = 0; i < blocks && !status; i++) {
        m.products.dst = to[i];
        m.products.src = block_at(&in->blocks, (uint32_t)i);
        m.products.count = side_block_count(in, i);
        m.products.factors = reduce_op_factors(c->op, first, &m.products.one_factor);
        status = call_await(group, call_patience(group, &c->packed), is_multiplied, &m,
                            "calls that are not over use all the pinned memory that they may; "
                            "TUTTI_PINNED_MIB raises that");
        first += m.products.count;
    }
    return status;
}

/* What takes no memory that a graph would need later is recorded. All members find the same, unless one has a factor for
 * each element, and another has not. */
static tutti_status check_capture(const struct collective *c)
{
    bool one;

    (void)reduce_op_factors(c->op, 0, &one);
    if (!one)
        return capture_check_copy(&c->packed, "a premul_sum with a factor for each element");
    return c->fields.operation == OPERATION_ALL_REDUCE
               ? TUTTI_OK
               : capture_check_copy(&c->packed, "a premul_sum that does not write all products");
}

/* Cuts the memory into a part for each block. */
static void **cut(struct collective *c, const struct side *in, int blocks, char *memory)
{
    void **each = chain_allocate(&c->memory, (size_t)blocks * sizeof *each);

    for (int i = 0; each && i < blocks; i++) {
        each[i] = memory;
        memory += side_block_count(in, i) * in->element;
    }
    return each;
}

tutti_status premul_products(struct tutti_group *group, struct collective *c, const struct side *in,
                             int blocks, void *into)
{
    const bool direct = c->packed.is_direct;
    void **each = NULL;

    if (direct && c->packed.has_host)
        return TUTTI_OK; /* call_check_stand_ins() refuses it */
    tutti_status status = check_capture(c);
    if (!status && !into)
        status = make_room(group, c, in->total * in->element, &into);
    if (!status && !(each = cut(c, in, blocks, into)))
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d blocks", blocks);
    if (!status)
        status = direct ? multiply_on_device(group, c, in, each, blocks)
                        : multiply_here(group, c, in, each, blocks);
    if (status)
        return status;
    c->has_copied = true;
    c->in = (struct blocks){.base = into, .each = blocks > 1 ? each : NULL};
    reduce_op_release(c->op);
    c->op = NULL;
    return TUTTI_OK;
}
