/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all of the public API. In place, input and output being the same blocks, is served from a
 * copy of the input: what goes out to one member would otherwise be overwritten by what comes from
 * it.
 */
#include <string.h>

#include "base/error.h"
#include "collective/call.h"
#include "collective/side.h"

static struct collective all_to_all_call(void)
{
    return (struct collective){.words = {.op = -1, .root = -1, .operation = OPERATION_ALL_TO_ALL}};
}

/* Whether the sides are the same blocks; other overlaps are the caller's mistake, and are looked for
 * where both sides are one tensor. */
static tutti_status look_for_overlap(const struct side *in, const struct side *out,
                                     bool *ret_in_place)
{
    const uint64_t element = tutti_dtype_size(in->dtype);
    const char *a = block_at(&in->blocks, 0), *b = block_at(&out->blocks, 0);
    const uint64_t a_bytes = in->total * element, b_bytes = out->total * element;
    const bool single = !in->blocks.each && !out->blocks.each;

    *ret_in_place = a_bytes && a == b;
    if (single && a != b && a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the input and the output overlap; give the same tensor to work in place");
    return TUTTI_OK;
}

static tutti_status copy_input(const struct tutti_group *group, struct collective *c,
                               struct side *in)
{
    const uint64_t element = tutti_dtype_size(in->dtype);
    const size_t n = (size_t)group->size;
    void **each = chain_allocate(&c->memory, n * sizeof *each);
    char *at = chain_allocate(&c->memory, in->total * element);

    if (!each || !at)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "no memory for a copy of the input, which working in place needs");
    for (int i = 0; i < group->size; i++) {
        const uint64_t bytes = side_block_count(in, i) * element;

        if (bytes)
            memcpy(at, block_at(&in->blocks, (uint32_t)i), bytes);
        each[i] = at;
        at += bytes;
    }
    in->blocks.each = each;
    return TUTTI_OK;
}

/* `uneven`: a form in which each pair of members has a size of its own. */
static tutti_status all_to_all(tutti_group *group, struct collective *c, tutti_status status,
                               struct side *in, struct side *out, bool uneven, tutti_work **work)
{
    bool in_place = false;

    if (!status)
        status = side_same_dtype(in, out);
    if (!status && side_block_count(in, group->rank) != side_block_count(out, group->rank))
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                           "rank %d sends %llu elements to itself and expects %llu", group->rank,
                           (unsigned long long)side_block_count(in, group->rank),
                           (unsigned long long)side_block_count(out, group->rank));
    if (!status)
        status = look_for_overlap(in, out, &in_place);
    if (!status && in_place)
        status = copy_input(group, c, in);
    if (!status) {
        in->uneven = out->uneven = uneven;
        side_describe(c, group, SIDE_IN, in, false, side_block_count(in, group->rank));
        side_describe(c, group, SIDE_OUT, out, false, side_block_count(out, group->rank));
        c->in = in->blocks;
        c->out = out->blocks;
    }
    return collective_run(group, c, status, work);
}

tutti_status tutti_all_to_all(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                              const tutti_options *options, tutti_work **work)
{
    struct collective c = all_to_all_call();
    struct side ins, outs;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_blocks(group, &c, in, "the input", TENSOR_READ, &ins);
    if (!status)
        status = side_blocks(group, &c, out, "the output", TENSOR_WRITTEN, &outs);
    return all_to_all(group, &c, status, &ins, &outs, false, work);
}

tutti_status tutti_all_to_all_list(tutti_group *group, const tutti_tensor *const *ins,
                                   const tutti_tensor *const *outs, const tutti_options *options,
                                   tutti_work **work)
{
    struct collective c = all_to_all_call();
    struct side in, out;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_list(group, &c, ins, "the input", TENSOR_READ, &in);
    if (!status)
        status = side_list(group, &c, outs, "the output", TENSOR_WRITTEN, &out);
    return all_to_all(group, &c, status, &in, &out, true, work);
}

tutti_status tutti_all_to_all_v(tutti_group *group, const tutti_tensor *in,
                                const int64_t *in_counts, const int64_t *in_offsets,
                                const tutti_tensor *out, const int64_t *out_counts,
                                const int64_t *out_offsets, const tutti_options *options,
                                tutti_work **work)
{
    struct collective c = all_to_all_call();
    struct side ins, outs;
    tutti_status status = call_check(group, options, &c.timeout_ms);

    if (!status)
        status = side_counts(group, &c, in, in_counts, in_offsets, "the input", TENSOR_READ, &ins);
    if (!status)
        status = side_counts(group, &c, out, out_counts, out_offsets, "the output", TENSOR_WRITTEN,
                             &outs);
    return all_to_all(group, &c, status, &ins, &outs, true, work);
}
