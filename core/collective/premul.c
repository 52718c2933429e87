/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PREMUL_SUM: a factor is read when the operation is made, wherever it lies. A call multiplies when it is made, and the
 * rest of it is a sum. Tensors that an engine takes on their device are multiplied there, in the order of the stream.
 */
#include <tutti/reduce.h>

#include "base/error.h"
#include "collective/batch.h"
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

/* Blocks one behind the other are multiplied as one. */
struct part {
    const void *from;
    uint64_t first, count; /* elements of the input */
};

/* The parts in their order: *at is the block behind the last one. False: there is no more. */
static bool next_part(const struct side *in, int blocks, int *at, struct part *part)
{
    const char *end;

    if (*at == blocks)
        return false;
    part->first += part->count;
    part->from = end = block_at(&in->blocks, (uint32_t)*at);
    part->count = 0;
    for (; *at < blocks; ++*at) {
        const uint64_t count = side_block_count(in, *at);

        if (count && part->count && (const char *)block_at(&in->blocks, (uint32_t)*at) != end)
            break;
        part->from = part->count ? part->from : block_at(&in->blocks, (uint32_t)*at);
        part->count += count;
        end = (const char *)part->from + part->count * in->element;
    }
    return true;
}

/* On the host, once the stand-ins of tensors on devices are filled. */
static tutti_status multiply_here(struct tutti_group *group, struct collective *c,
                                  const struct side *in, char *to, int blocks)
{
    const tutti_status status = call_await_stand_ins(group, c->packed.first, c->timeout_ms);
    struct part part = {0};

    for (int at = 0; !status && next_part(in, blocks, &at, &part);)
        reduce_op_multiply(c->op, to + part.first * in->element, part.from, part.first, part.count);
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
                                       const struct side *in, char *to, int blocks)
{
    struct multiplying m = {atomic_load(&group->device),
                            {.stream = c->packed.stream, .dtype = in->dtype}};
    tutti_status status = TUTTI_OK;
    struct part part = {0};

    for (int at = 0; !status && next_part(in, blocks, &at, &part);) {
        m.products.dst = to + part.first * in->element;
        m.products.src = part.from;
        m.products.count = part.count;
        m.products.factors = reduce_op_factors(c->op, part.first, &m.products.one_factor);
        status =
            call_await_pinned(group, m.device, call_patience(group, &c->packed),
                              &(struct pinned_try){is_multiplied, &m, "the factors of premul_sum"});
    }
    return status;
}

/* What takes no memory that a graph would need later is recorded. All members find the same, unless one has a factor for
 * each element, and another has not. */
static tutti_status check_capture(struct tutti_group *group, const struct collective *c)
{
    bool one;

    (void)reduce_op_factors(c->op, 0, &one);
    if (!one)
        return capture_check_copy(&c->packed, "a premul_sum with a factor for each element");
    if (batch_of(group))
        return capture_check_copy(&c->packed, "a premul_sum in a batch");
    return c->fields.operation == OPERATION_ALL_REDUCE
               ? TUTTI_OK
               : capture_check_copy(&c->packed, "a premul_sum that does not write all products");
}

/* Where each block's products are. */
static tutti_status lay_out(struct collective *c, const struct side *in, int blocks, char *products)
{
    void **each = NULL;

    if (blocks > 1) {
        each = chain_allocate(&c->memory, (size_t)blocks * sizeof *each);
        if (!each)
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d blocks", blocks);
    }
    c->in = (struct blocks){.base = products, .each = each};
    for (int i = 0; i < blocks && each; i++) {
        each[i] = products;
        products += side_block_count(in, i) * in->element;
    }
    return TUTTI_OK;
}

/* Other calls of a batch, which begin later, may use what this one writes. */
tutti_status premul_products(struct tutti_group *group, struct collective *c, const struct side *in,
                             int blocks, void *into)
{
    const bool direct = c->packed.is_direct;
    void *products = batch_of(group) ? NULL : into;

    if ((direct && c->packed.has_host) || group_ended(group))
        return TUTTI_OK; /* the call will be refused */
    tutti_status status = check_capture(group, c);
    if (!status && !products)
        status = make_room(group, c, in->total * in->element, &products);
    if (!status)
        status = direct ? multiply_on_device(group, c, in, products, blocks)
                        : multiply_here(group, c, in, products, blocks);
    if (!status)
        status = lay_out(c, in, blocks, products);
    if (status)
        return status;
    c->has_copied = true;
    reduce_op_release(c->op);
    c->op = NULL;
    return TUTTI_OK;
}
