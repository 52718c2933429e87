/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast and scatter of the public API. */
#include "collective/call.h"
#include "collective/side.h"

tutti_status tutti_broadcast(tutti_group *group, const tutti_tensor *tensor, int32_t root,
                             const tutti_options *options, tutti_work **work)
{
    struct collective c = {.function = __func__,
                           .words = {.op = -1, .root = root, .operation = OPERATION_BROADCAST}};
    struct side vector;
    const enum tensor_use use = group && group->rank == root ? TENSOR_READ : TENSOR_WRITTEN;
    tutti_status status = side_rooted(group, &c, options, tensor, "the tensor", use, &vector);

    if (!status) {
        side_describe(&c, group, SIDE_OUT, &vector, false, vector.count);
        c.in = c.out = vector.blocks;
    }
    return collective_run(group, &c, status, work);
}

/* ---- scatter: only the root has an input ---- */

static struct collective scatter_call(const char *function, int32_t root)
{
    return (struct collective){.function = function,
                               .words = {.op = -1, .root = root, .operation = OPERATION_SCATTER}};
}

/* `uneven`: the form with counts, whose sizes only the root knows. */
static tutti_status scatter(tutti_group *group, struct collective *c, tutti_status status,
                            const struct side *in, struct side *out, bool uneven, tutti_work **work)
{
    const bool root = !status && group->rank == c->words.root;

    if (root)
        status = side_same_dtype(in, out);
    if (root && !status)
        status = side_check_block(out, in, group->rank);
    if (root && !status)
        status = side_check_overlap(group, out, in, group->rank);
    if (!status) {
        out->uneven = uneven;
        side_describe(c, group, SIDE_IN, root ? in : out, false, out->count);
        c->in = root ? in->blocks : out->blocks;
        c->out = out->blocks;
    }
    return collective_run(group, c, status, work);
}

tutti_status tutti_scatter(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                           int32_t root, const tutti_options *options, tutti_work **work)
{
    struct collective c = scatter_call(__func__, root);
    struct side blocks, vector;
    tutti_status status =
        side_rooted(group, &c, options, out, "the output", TENSOR_WRITTEN, &vector);

    if (!status && group->rank == root)
        status = side_blocks(group, &c, in, "the input", TENSOR_READ, &blocks);
    return scatter(group, &c, status, &blocks, &vector, false, work);
}

tutti_status tutti_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                const tutti_tensor *out, int32_t root, const tutti_options *options,
                                tutti_work **work)
{
    struct collective c = scatter_call(__func__, root);
    struct side blocks, vector;
    tutti_status status =
        side_rooted(group, &c, options, out, "the output", TENSOR_WRITTEN, &vector);

    if (!status && group->rank == root)
        status = side_list_even(group, &c, ins, "the input", TENSOR_READ, &blocks);
    return scatter(group, &c, status, &blocks, &vector, false, work);
}

tutti_status tutti_scatter_v(tutti_group *group, const tutti_tensor *in, const int64_t *counts,
                             const int64_t *offsets, const tutti_tensor *out, int32_t root,
                             const tutti_options *options, tutti_work **work)
{
    struct collective c = scatter_call(__func__, root);
    struct side blocks, vector;
    tutti_status status =
        side_rooted(group, &c, options, out, "the output", TENSOR_WRITTEN, &vector);

    if (!status && group->rank == root)
        status = side_counts(group, &c, in, counts, offsets, "the input", TENSOR_READ, &blocks);
    return scatter(group, &c, status, &blocks, &vector, true, work);
}
