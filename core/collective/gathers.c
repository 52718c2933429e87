/* SPDX-License-Identifier: Apache-2.0 */
/* all_gather and gather of the public API. */
#include "collective/call.h"
#include "collective/side.h"

static struct collective gather_call(const char *function, enum operation operation, int32_t root)
{
    return (struct collective){.function = function,
                               .words = {.op = -1, .root = root, .operation = (uint8_t)operation}};
}

/* What both have in common: my vector is one of the output's blocks. */
static tutti_status check_sides(const struct tutti_group *group, struct collective *c,
                                const struct side *in, const struct side *out)
{
    tutti_status status = side_same_dtype(in, out);

    if (!status)
        status = side_check_block(in, out, group->rank);
    if (!status)
        status = side_check_distinct(group, c, out);
    return status ? status : side_check_overlap(group, in, out, group->rank);
}

/* ---- all_gather ---- */

static tutti_status all_gather(tutti_group *group, struct collective *c, tutti_status status,
                               const tutti_tensor *tensor, const struct side *out,
                               tutti_work **work)
{
    struct side in;

    if (!status)
        status = side_vector(c, tensor, "the input", TENSOR_READ, &in);
    if (!status)
        status = check_sides(group, c, &in, out);
    if (!status) {
        side_describe(c, group, SIDE_OUT, out, true, in.count);
        c->in = in.blocks;
        c->out = out->blocks;
    }
    return collective_run(group, c, status, work);
}

tutti_status tutti_all_gather(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                              const tutti_options *options, tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_ALL_GATHER, -1);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_blocks(group, &c, out, "the output", TENSOR_WRITTEN, &blocks);
    return all_gather(group, &c, status, in, &blocks, work);
}

tutti_status tutti_all_gather_list(tutti_group *group, const tutti_tensor *in,
                                   const tutti_tensor *const *outs, const tutti_options *options,
                                   tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_ALL_GATHER, -1);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_list(group, &c, outs, "the output", TENSOR_WRITTEN, &blocks);
    return all_gather(group, &c, status, in, &blocks, work);
}

tutti_status tutti_all_gather_v(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                                const int64_t *counts, const int64_t *offsets,
                                const tutti_options *options, tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_ALL_GATHER, -1);
    struct side blocks;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status =
            side_counts(group, &c, out, counts, offsets, "the output", TENSOR_WRITTEN, &blocks);
    return all_gather(group, &c, status, in, &blocks, work);
}

/* ---- gather: only the root has an output ---- */

/* `uneven`: the form with counts, whose sizes only the root knows. */
static tutti_status gather(tutti_group *group, struct collective *c, tutti_status status,
                           struct side *in, const struct side *out, bool uneven, tutti_work **work)
{
    const bool root = !status && group->rank == c->words.root;

    if (root)
        status = check_sides(group, c, in, out);
    if (!status) {
        in->uneven = uneven;
        side_describe(c, group, SIDE_OUT, root ? out : in, false, in->count);
        c->in = in->blocks;
        c->out = root ? out->blocks : in->blocks;
    }
    return collective_run(group, c, status, work);
}

tutti_status tutti_gather(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                          int32_t root, const tutti_options *options, tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_GATHER, root);
    struct side vector, blocks;
    tutti_status status = side_rooted(group, &c, options, in, "the input", TENSOR_READ, &vector);

    if (!status && group->rank == root)
        status = side_blocks(group, &c, out, "the output", TENSOR_WRITTEN, &blocks);
    return gather(group, &c, status, &vector, &blocks, false, work);
}

tutti_status tutti_gather_list(tutti_group *group, const tutti_tensor *in,
                               const tutti_tensor *const *outs, int32_t root,
                               const tutti_options *options, tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_GATHER, root);
    struct side vector, blocks;
    tutti_status status = side_rooted(group, &c, options, in, "the input", TENSOR_READ, &vector);

    if (!status && group->rank == root)
        status = side_list_even(group, &c, outs, "the output", TENSOR_WRITTEN, &blocks);
    return gather(group, &c, status, &vector, &blocks, false, work);
}

tutti_status tutti_gather_v(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                            const int64_t *counts, const int64_t *offsets, int32_t root,
                            const tutti_options *options, tutti_work **work)
{
    struct collective c = gather_call(__func__, OPERATION_GATHER, root);
    struct side vector, blocks;
    tutti_status status = side_rooted(group, &c, options, in, "the input", TENSOR_READ, &vector);

    if (!status && group->rank == root)
        status =
            side_counts(group, &c, out, counts, offsets, "the output", TENSOR_WRITTEN, &blocks);
    return gather(group, &c, status, &vector, &blocks, true, work);
}
