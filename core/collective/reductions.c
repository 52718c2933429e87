/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, reduce, reduce_scatter of the public API. Whether a built-in op takes the dtype is
 * looked at when the plan is made.
 */
#include "base/error.h"
#include "collective/side.h"
#include "reduce/op.h"

static bool wants_fixed_order(const tutti_group *group, const tutti_options *options)
{
    return group->reproducible || /* NOLINT: without a group no caller comes here */
           call_flags(options) & TUTTI_FIXED_ORDER;
}

/* Takes the op of an input of `count` elements: its number in the fields, and whether its order is
 * fixed. */
static inline tutti_status take_op(const tutti_group *group, struct collective *c,
                                   const tutti_options *options, tutti_dtype dtype, uint64_t count)
{
    struct reduce_choice choice;

    if (wants_fixed_order(group, options))
        c->fields.flags |= CALL_ORDERED;
    if (c->fields.op < TUTTI_PREMUL_SUM)
        return TUTTI_OK;
    tutti_status status = reduce_op_take(c->fields.op, dtype, count, &choice);
    if (status)
        return status;
    c->op = choice.op;
    c->fields.op = choice.in_fields;
    if (choice.ordered)
        c->fields.flags |= CALL_ORDERED;
    return TUTTI_OK;
}

/* The operands: the input, or the products that it becomes. */
static inline tutti_status take_input(struct tutti_group *group, struct collective *c,
                                      const struct side *in, int blocks, void *into)
{
    c->in = in->blocks;
    return reduce_op_is_premul(c->op) && in->total ? premul_products(group, c, in, blocks, into)
                                                   : TUTTI_OK;
}

/* Two vectors of the same kind: the same memory, or memory that does not overlap. */
static tutti_status check_pair(const struct tutti_group *group, const struct side *in,
                               const struct side *out)
{
    if (in->dtype != out->dtype || in->count != out->count)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "input and output differ: %llu x %s and %llu x %s",
                         (unsigned long long)in->count, tutti_dtype_name(in->dtype),
                         (unsigned long long)out->count, tutti_dtype_name(out->dtype));
    return side_check_overlap(group, in, out, 0);
}

/* The commonest call, and often one of a few bytes: without the detour over sides. */
static tutti_status all_reduce(const char *function, tutti_group *group, const tutti_tensor *tensor,
                               tutti_reduce_op op, const tutti_options *options, tutti_work **work)
{
    struct collective c = collective_of(function, OPERATION_ALL_REDUCE, op, -1);
    void *data = NULL;
    tutti_status status = collective_check(group, options, &c);

    if (!status)
        status = call_tensor(group, tensor, "the tensor", TENSOR_BOTH, &c.packed, &data,
                             &c.fields.count, &c.bytes);
    if (!status) {
        c.fields.dtype = tensor->dtype;
        status = take_op(group, &c, options, tensor->dtype, c.fields.count);
    }
    c.in.base = c.out.base = data;
    if (!status && c.op)
        status = take_input(group, &c,
                            &(struct side){.blocks = c.out,
                                           .dtype = tensor->dtype,
                                           .element = tutti_dtype_size(tensor->dtype),
                                           .count = c.fields.count,
                                           .total = c.fields.count},
                            1, c.out.base);
    return collective_run(group, &c, status, work);
}

tutti_status tutti_all_reduce(tutti_group *group, const tutti_tensor *tensor, tutti_reduce_op op,
                              const tutti_options *options, tutti_work **work)
{
    return all_reduce(__func__, group, tensor, op, options, work);
}

static tutti_status reduce(const char *function, tutti_group *group, enum operation operation,
                           const tutti_tensor *in_tensor, const tutti_tensor *out_tensor,
                           tutti_reduce_op op, int32_t root, const tutti_options *options,
                           tutti_work **work)
{
    struct collective c = collective_of(function, operation, op, root);
    const bool in_place = in_tensor == out_tensor;
    struct side in, out;
    const bool writes = operation == OPERATION_ALL_REDUCE || (group && group->rank == root);
    tutti_status status = collective_check(group, options, &c);

    if (!status && operation == OPERATION_REDUCE)
        status = call_check_root(group, root);
    if (!status)
        status = side_vector(group, &c, in_tensor, in_place ? "the tensor" : "the input",
                             in_place && writes ? TENSOR_BOTH : TENSOR_READ, &in);
    if (!status && writes && !in_place) {
        status = side_vector(group, &c, out_tensor, "the output", TENSOR_WRITTEN, &out);
        if (!status)
            status = check_pair(group, &in, &out);
    } else if (!status) {
        out = in;
    }
    if (!status)
        status = take_op(group, &c, options, in.dtype, in.total);
    if (!status) {
        side_describe(&c, group, SIDE_IN, &in, in.count);
        c.out = out.blocks; /* written where there is a result */
        status = take_input(group, &c, &in, 1, writes ? out.blocks.base : NULL);
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_all_reduce_into(tutti_group *group, const tutti_tensor *in,
                                   const tutti_tensor *out, tutti_reduce_op op,
                                   const tutti_options *options, tutti_work **work)
{
    if (in == out)
        return all_reduce(__func__, group, out, op, options, work);
    return reduce(__func__, group, OPERATION_ALL_REDUCE, in, out, op, -1, options, work);
}

tutti_status tutti_reduce(tutti_group *group, const tutti_tensor *tensor, tutti_reduce_op op,
                          int32_t root, const tutti_options *options, tutti_work **work)
{
    return reduce(__func__, group, OPERATION_REDUCE, tensor, tensor, op, root, options, work);
}

tutti_status tutti_reduce_into(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                               tutti_reduce_op op, int32_t root, const tutti_options *options,
                               tutti_work **work)
{
    return reduce(__func__, group, OPERATION_REDUCE, in, out, op, root, options, work);
}

static tutti_status reduce_scatter(const char *function, tutti_group *group, struct form form,
                                   const tutti_tensor *tensor, tutti_reduce_op op,
                                   const tutti_options *options, tutti_work **work)
{
    struct collective c = collective_of(function, OPERATION_REDUCE_SCATTER, op, -1);
    struct side in, out;
    tutti_status status = collective_check(group, options, &c);

    if (!status)
        status = side_blocks(group, &c, &form, "the input", TENSOR_READ, &in);
    if (!status)
        status = side_vector(group, &c, tensor, "the output", TENSOR_WRITTEN, &out);
    if (!status)
        status = side_check_pair(group, &c, SIDE_IN, &out, &in);
    if (!status)
        status = take_op(group, &c, options, in.dtype, in.total);
    if (!status) {
        side_describe(&c, group, SIDE_IN, &in, out.count);
        c.out = out.blocks;
        status = take_input(group, &c, &in, group->size, NULL);
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_reduce_scatter(tutti_group *group, const tutti_tensor *in,
                                  const tutti_tensor *out, tutti_reduce_op op,
                                  const tutti_options *options, tutti_work **work)
{
    return reduce_scatter(__func__, group, form_even(in), out, op, options, work);
}

tutti_status tutti_reduce_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                       const tutti_tensor *out, tutti_reduce_op op,
                                       const tutti_options *options, tutti_work **work)
{
    return reduce_scatter(__func__, group, form_list(ins), out, op, options, work);
}

tutti_status tutti_reduce_scatter_v(tutti_group *group, const tutti_tensor *in,
                                    const int64_t *counts, const int64_t *offsets,
                                    const tutti_tensor *out, tutti_reduce_op op,
                                    const tutti_options *options, tutti_work **work)
{
    return reduce_scatter(__func__, group, form_counts(in, counts, offsets), out, op, options,
                          work);
}
