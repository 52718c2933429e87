/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast, all_gather, gather and scatter of the public API. */
#include "collective/side.h"

tutti_status tutti_broadcast(tutti_group *group, const tutti_tensor *tensor, int32_t root,
                             const tutti_options *options, tutti_work **work)
{
    struct collective c = collective_of(__func__, OPERATION_BROADCAST, -1, root);
    struct side vector;
    const enum tensor_use use = group && group->rank == root ? TENSOR_READ : TENSOR_WRITTEN;
    tutti_status status = collective_check(group, options, &c);

    if (!status)
        status = call_check_root(group, root);
    if (!status)
        status = side_vector(group, &c, tensor, "the tensor", use, &vector);
    if (!status) {
        side_describe(&c, group, SIDE_OUT, &vector, vector.count);
        c.in = c.out = vector.blocks;
    }
    return collective_run(group, &c, status, work);
}

/* Every member has a vector. The blocks are the root's alone, but for all_gather. */
static tutti_status gather(const char *function, tutti_group *group, enum operation operation,
                           const tutti_tensor *tensor, struct form form, int32_t root,
                           const tutti_options *options, tutti_work **work)
{
    static const char *const names[] = {[SIDE_IN] = "the input", [SIDE_OUT] = "the output"};
    static const enum tensor_use uses[] = {[SIDE_IN] = TENSOR_READ, [SIDE_OUT] = TENSOR_WRITTEN};
    const bool scatters = operation == OPERATION_SCATTER;
    const int which = scatters ? SIDE_IN : SIDE_OUT; /* has the blocks */
    struct collective c = collective_of(function, operation, -1, root);
    struct side vector, blocks;
    tutti_status status = collective_check(group, options, &c);

    if (!status && operation != OPERATION_ALL_GATHER)
        status = call_check_root(group, root);
    if (!status)
        status = side_vector(group, &c, tensor, names[!which], uses[!which], &vector);
    if (!status && (operation == OPERATION_ALL_GATHER || group->rank == root)) {
        status = side_blocks(group, &c, &form, names[which], uses[which], &blocks);
        if (!status)
            status = side_check_pair(group, &c, which, &vector, &blocks);
    } else if (!status) {
        vector.uneven = form.kind == FORM_COUNTS; /* only the root knows the sizes */
        blocks = vector;
    }
    if (!status) {
        side_describe(&c, group, which, &blocks, vector.count);
        c.in = scatters ? blocks.blocks : vector.blocks;
        c.out = scatters ? vector.blocks : blocks.blocks;
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_all_gather(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                              const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_ALL_GATHER, in, form_even(out), -1, options, work);
}

tutti_status tutti_all_gather_list(tutti_group *group, const tutti_tensor *in,
                                   const tutti_tensor *const *outs, const tutti_options *options,
                                   tutti_work **work)
{
    return gather(__func__, group, OPERATION_ALL_GATHER, in, form_list(outs), -1, options, work);
}

tutti_status tutti_all_gather_v(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                                const int64_t *counts, const int64_t *offsets,
                                const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_ALL_GATHER, in, form_counts(out, counts, offsets), -1,
                  options, work);
}

tutti_status tutti_gather(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                          int32_t root, const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_GATHER, in, form_even(out), root, options, work);
}

tutti_status tutti_gather_list(tutti_group *group, const tutti_tensor *in,
                               const tutti_tensor *const *outs, int32_t root,
                               const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_GATHER, in, form_list(outs), root, options, work);
}

tutti_status tutti_gather_v(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                            const int64_t *counts, const int64_t *offsets, int32_t root,
                            const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_GATHER, in, form_counts(out, counts, offsets), root,
                  options, work);
}

tutti_status tutti_scatter(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                           int32_t root, const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_SCATTER, out, form_even(in), root, options, work);
}

tutti_status tutti_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                const tutti_tensor *out, int32_t root, const tutti_options *options,
                                tutti_work **work)
{
    return gather(__func__, group, OPERATION_SCATTER, out, form_list(ins), root, options, work);
}

tutti_status tutti_scatter_v(tutti_group *group, const tutti_tensor *in, const int64_t *counts,
                             const int64_t *offsets, const tutti_tensor *out, int32_t root,
                             const tutti_options *options, tutti_work **work)
{
    return gather(__func__, group, OPERATION_SCATTER, out, form_counts(in, counts, offsets), root,
                  options, work);
}
