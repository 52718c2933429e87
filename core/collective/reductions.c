/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, reduce, reduce_scatter of the public API. Whether the op takes the dtype is looked at
 * when the plan is made.
 */
#include "base/error.h"
#include "collective/call.h"
#include "collective/side.h"

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

static void take_vector(struct collective *c, const struct side *side)
{
    c->words.dtype = side->dtype;
    c->words.count = side->count;
    c->bytes = side->count * tutti_dtype_size(side->dtype);
}

/* The commonest call, and often one of a few bytes: without the detour over sides. */
tutti_status tutti_all_reduce(tutti_group *group, const tutti_tensor *tensor, tutti_reduce_op op,
                              const tutti_options *options, tutti_work **work)
{
    struct collective c = {.words = {.op = op, .root = -1, .operation = OPERATION_ALL_REDUCE}};
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = call_tensor(tensor, "the tensor", TENSOR_BOTH, &c.packed, &c.out.base,
                             &c.words.count, &c.bytes);
    if (!status) {
        c.words.dtype = tensor->dtype;
        c.in = c.out;
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_all_reduce_into(tutti_group *group, const tutti_tensor *in_tensor,
                                   const tutti_tensor *out_tensor, tutti_reduce_op op,
                                   const tutti_options *options, tutti_work **work)
{
    struct collective c = {.words = {.op = op, .root = -1, .operation = OPERATION_ALL_REDUCE}};
    struct side in, out;
    tutti_status status;

    if (in_tensor == out_tensor)
        return tutti_all_reduce(group, out_tensor, op, options, work);
    status = call_check(group, options, &c.timeout_ms);
    if (!status)
        status = side_vector(&c, out_tensor, "the output", TENSOR_WRITTEN, &out);
    if (!status)
        status = side_vector(&c, in_tensor, "the input", TENSOR_READ, &in);
    if (!status)
        status = check_pair(group, &in, &out);
    if (!status) {
        take_vector(&c, &out);
        c.in = in.blocks;
        c.out = out.blocks;
    }
    return collective_run(group, &c, status, work);
}

static tutti_status reduce(tutti_group *group, const tutti_tensor *in_tensor,
                           const tutti_tensor *out_tensor, tutti_reduce_op op, int32_t root,
                           const tutti_options *options, tutti_work **work)
{
    struct collective c = {.words = {.op = op, .root = root, .operation = OPERATION_REDUCE}};
    const bool in_place = in_tensor == out_tensor;
    struct side in, out;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = collective_check_root(group, root);
    if (!status)
        status = side_vector(&c, in_tensor, in_place ? "the tensor" : "the input",
                             in_place && group->rank == root ? TENSOR_BOTH : TENSOR_READ, &in);
    out = in;
    if (!status && group->rank == root && !in_place) {
        status = side_vector(&c, out_tensor, "the output", TENSOR_WRITTEN, &out);
        if (!status)
            status = check_pair(group, &in, &out);
    }
    if (!status) {
        take_vector(&c, &in);
        c.in = in.blocks;
        c.out = out.blocks; /* written on the root alone */
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_reduce(tutti_group *group, const tutti_tensor *tensor, tutti_reduce_op op,
                          int32_t root, const tutti_options *options, tutti_work **work)
{
    return reduce(group, tensor, tensor, op, root, options, work);
}

tutti_status tutti_reduce_into(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                               tutti_reduce_op op, int32_t root, const tutti_options *options,
                               tutti_work **work)
{
    return reduce(group, in, out, op, root, options, work);
}

/* ---- reduce_scatter ------------------------------------------------------------------------- */

static struct collective reduce_scatter_call(tutti_reduce_op op)
{
    return (struct collective){
        .words = {.op = op, .root = -1, .operation = OPERATION_REDUCE_SCATTER}};
}

static tutti_status reduce_scatter(tutti_group *group, struct collective *c, tutti_status status,
                                   const struct side *in, const tutti_tensor *tensor,
                                   tutti_work **work)
{
    struct side out;

    if (!status)
        status = side_vector(c, tensor, "the output", TENSOR_WRITTEN, &out);
    if (!status)
        status = side_same_dtype(in, &out);
    if (!status)
        status = side_check_block(&out, in, group->rank);
    if (!status)
        status = side_check_overlap(group, &out, in, group->rank);
    if (!status) {
        side_describe(c, group, SIDE_IN, in, true, out.count);
        c->in = in->blocks;
        c->out = out.blocks;
    }
    return collective_run(group, c, status, work);
}

tutti_status tutti_reduce_scatter(tutti_group *group, const tutti_tensor *in,
                                  const tutti_tensor *out, tutti_reduce_op op,
                                  const tutti_options *options, tutti_work **work)
{
    struct collective c = reduce_scatter_call(op);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_blocks(group, &c, in, "the input", TENSOR_READ, &blocks);
    return reduce_scatter(group, &c, status, &blocks, out, work);
}

tutti_status tutti_reduce_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                       const tutti_tensor *out, tutti_reduce_op op,
                                       const tutti_options *options, tutti_work **work)
{
    struct collective c = reduce_scatter_call(op);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_list(group, &c, ins, "the input", TENSOR_READ, &blocks);
    return reduce_scatter(group, &c, status, &blocks, out, work);
}

tutti_status tutti_reduce_scatter_v(tutti_group *group, const tutti_tensor *in,
                                    const int64_t *counts, const int64_t *offsets,
                                    const tutti_tensor *out, tutti_reduce_op op,
                                    const tutti_options *options, tutti_work **work)
{
    struct collective c = reduce_scatter_call(op);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_counts(group, &c, in, counts, offsets, "the input", TENSOR_READ, &blocks);
    return reduce_scatter(group, &c, status, &blocks, out, work);
}
