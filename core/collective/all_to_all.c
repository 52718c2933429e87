/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all of the public API. In place, blocks of input and output being the same, is served from a
 * copy of the input: what goes out to one member would otherwise be overwritten by what comes from
 * it.
 */
#include <string.h>

#include "base/error.h"
#include "collective/side.h"

/* Whether block `i` is the same memory on both sides. */
static bool is_same(const struct side *in, const struct side *out, int i)
{
    const uint64_t bytes = side_block_bytes(in, i);

    return bytes && bytes == side_block_bytes(out, i) &&
           block_at(&in->blocks, (uint32_t)i) == block_at(&out->blocks, (uint32_t)i);
}

/* The bytes from the first block's to the last one's in memory; nothing: from == to. */
static void range_of(const struct tutti_group *group, const struct side *side,
                     const char **ret_from, const char **ret_to)
{
    const char *from = side->blocks.base, *to = from;

    if (!side->blocks.each) {
        *ret_from = from;
        *ret_to = to + side->total * side->element;
        return;
    }
    from = to = NULL;
    for (int i = 0; i < group->size; i++) {
        const char *at = block_at(&side->blocks, (uint32_t)i);
        const uint64_t bytes = side_block_bytes(side, i);

        if (!bytes)
            continue;
        if (!to || at < from)
            from = at;
        if (!to || at + bytes > to)
            to = at + bytes;
    }
    *ret_from = from;
    *ret_to = to;
}

/* The output's block that the input's block `i` shares memory with, unless it is the same; -1: none. */
static int met_by(const struct tutti_group *group, const struct side *in, int i,
                  const struct side *out)
{
    const char *from = block_at(&in->blocks, (uint32_t)i);
    const char *to = from + side_block_bytes(in, i);

    for (int k = 0; k < group->size && from < to; k++) {
        const char *at = block_at(&out->blocks, (uint32_t)k);
        const uint64_t bytes = side_block_bytes(out, k);

        if (bytes && at < to && from < at + bytes && !(k == i && is_same(in, out, i)))
            return k;
    }
    return -1;
}

/*
 * In place: some of the blocks are the same on both sides. Those of strided tensors are stand-ins, which
 * share memory with none, so a list may have both. Other overlaps are the caller's mistake; blocks are
 * compared one by one only where the sides as a whole reach into each other.
 */
static tutti_status look_for_overlap(const struct tutti_group *group, const struct side *in,
                                     const struct side *out, bool *ret_in_place)
{
    const char *from, *to, *out_from, *out_to;

    *ret_in_place = false;
    range_of(group, in, &from, &to);
    range_of(group, out, &out_from, &out_to);
    if (from >= out_to || out_from >= to)
        return TUTTI_OK;
    for (int i = 0; i < group->size; i++) {
        const int k = met_by(group, in, i, out);

        if (k >= 0)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "block %d of the input and block %d of the output overlap; give the "
                             "same blocks on both sides to work in place",
                             i, k);
        *ret_in_place = *ret_in_place || is_same(in, out, i);
    }
    return TUTTI_OK;
}

static tutti_status copy_input(struct tutti_group *group, struct collective *c, struct side *in)
{
    const size_t n = (size_t)group->size;
    void **each = chain_allocate(&c->memory, n * sizeof *each);
    char *at = chain_allocate(&c->memory, in->total * in->element);

    if (!each || !at)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "no memory for a copy of the input, which working in place needs");
    const tutti_status status = call_await_stand_ins(group, c->packed.first, c->timeout_ms);
    if (status)
        return status;
    for (int i = 0; i < group->size; i++) {
        const uint64_t bytes = side_block_bytes(in, i);

        if (bytes)
            memcpy(at, block_at(&in->blocks, (uint32_t)i), bytes);
        each[i] = at;
        at += bytes;
    }
    in->blocks.each = each;
    c->has_copied = true;
    return TUTTI_OK;
}

/* Both forms are of one kind. But for even blocks each pair of members has a size of its own. */
static tutti_status all_to_all(const char *function, tutti_group *group, struct form from,
                               struct form to, const tutti_options *options, tutti_work **work)
{
    struct collective c = collective_of(function, OPERATION_ALL_TO_ALL, -1, -1);
    struct side in, out;
    bool in_place = false;
    tutti_status status = collective_check(group, options, &c);

    if (!status)
        status = side_blocks(group, &c, &from, "the input", TENSOR_READ, &in);
    if (!status)
        status = side_blocks(group, &c, &to, "the output", TENSOR_WRITTEN, &out);
    if (!status)
        status = side_same_dtype(&in, &out);
    if (!status && side_block_count(&in, group->rank) != side_block_count(&out, group->rank))
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                           "rank %d sends %llu elements to itself and expects %llu", group->rank,
                           (unsigned long long)side_block_count(&in, group->rank),
                           (unsigned long long)side_block_count(&out, group->rank));
    if (!status)
        status = side_check_distinct(group, &c, &out);
    if (!status)
        status = look_for_overlap(group, &in, &out, &in_place);
    if (!status && in_place)
        status = c.packed.is_direct ? call_device_blocks(group, &c, in.sizes, in.count * in.element,
                                                         TENSOR_READ, &in.blocks)
                                    : copy_input(group, &c, &in);
    if (!status) {
        in.uneven = out.uneven = from.kind != FORM_EVEN;
        side_describe(&c, group, SIDE_IN, &in, side_block_count(&in, group->rank));
        side_describe(&c, group, SIDE_OUT, &out, side_block_count(&out, group->rank));
        c.in = in.blocks;
        c.out = out.blocks;
    }
    return collective_run(group, &c, status, work);
}

tutti_status tutti_all_to_all(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                              const tutti_options *options, tutti_work **work)
{
    return all_to_all(__func__, group, form_even(in), form_even(out), options, work);
}

tutti_status tutti_all_to_all_list(tutti_group *group, const tutti_tensor *const *ins,
                                   const tutti_tensor *const *outs, const tutti_options *options,
                                   tutti_work **work)
{
    return all_to_all(__func__, group, form_list(ins), form_list(outs), options, work);
}

tutti_status tutti_all_to_all_v(tutti_group *group, const tutti_tensor *in,
                                const int64_t *in_counts, const int64_t *in_offsets,
                                const tutti_tensor *out, const int64_t *out_counts,
                                const int64_t *out_offsets, const tutti_options *options,
                                tutti_work **work)
{
    return all_to_all(__func__, group, form_counts(in, in_counts, in_offsets),
                      form_counts(out, out_counts, out_offsets), options, work);
}
