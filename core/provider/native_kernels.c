/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of tensors on devices that the engine there lacks, or means otherwise: a composition of operations that it
 * has with kernels of the device.
 *
 * By an all_to_all each member gets its part of the vectors of all members, in the order of their ranks. A kernel reduces
 * these, and the results go to all by an all_gather, or to the root by a gather; the parts of a reduce_scatter stay. All
 * of it is on the stream of the call, one behind the other. The engine does one *step* at a time, which the core polls as
 * it does other operations.
 *
 * What is received lies in scratch memory of the device. So that there is not as much of it as of the tensors, long ones
 * are cut into *pieces*, which follow each other. The blocks of a reduce_scatter do not lie in a row then, so those of a
 * piece are copied to scratch before the all_to_all. The number of pieces has a bound, as no stream takes any number of
 * kernels and copies while it waits.
 *
 * Invariant: cuts and steps follow from what all members know of the call, so that all start the same operations.
 */
#include "base/error.h"
#include "device/device.h"
#include "provider/native.h"
#include "reduce/tree.h"

enum {
    SCRATCH_BYTES = 32 << 20, /* of a piece; more only of tensors that would have too many pieces */
    PIECES_MAX = 32,
    COPIES_MAX = 128, /* of one call; a stream that waits takes some thousand */
    ALIGNMENT = 16    /* of parts: kernels are fast where all operands have it */
};

/* What members know alike of a call. */
struct shape {
    uint64_t count;        /* elements of the vector, or of each block */
    const uint64_t *sizes; /* bytes of each block, where they differ; NULL: they do not */
    uint32_t members, element;
    bool has_blocks;
};

static struct shape shape_of(const struct call_fields *fields, int members, const uint64_t *sizes)
{
    return (struct shape){.count = fields->count,
                          .sizes = sizes,
                          .members = (uint32_t)members,
                          .element = (uint32_t)tutti_dtype_size(fields->dtype),
                          .has_blocks = fields->operation == OPERATION_REDUCE_SCATTER};
}

static struct shape shape_of_call(const struct native *n, const struct call *call)
{
    return shape_of(&call->announce.fields, n->memory.what.size, call->plan->sizes.in);
}

static uint64_t block_count(const struct shape *s, uint32_t block)
{
    return s->sizes ? s->sizes[block] / s->element : s->count;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The smallest multiple of `unit`, of which so many make `count` or more. */
static uint64_t share(uint64_t count, uint64_t parts, uint64_t unit)
{
    const uint64_t each = (count + parts - 1) / parts;

    return (each + unit - 1) / unit * unit;
}

static uint64_t alignment_of(const struct shape *s)
{
    return ALIGNMENT / s->element;
}

/* ---- pieces ---- */

/* Bytes that the member with the most of them receives. */
static uint64_t most_received(const struct shape *s)
{
    uint64_t longest = s->sizes ? 0 : s->count;

    for (uint32_t r = 0; s->sizes && r < s->members; r++)
        longest = longest > block_count(s, r) ? longest : block_count(s, r);
    return longest * (s->has_blocks ? s->members : 1) * s->element;
}

static uint32_t pieces_of(const struct shape *s)
{
    const uint64_t by_copies = s->has_blocks ? COPIES_MAX / s->members : PIECES_MAX;
    const uint64_t most = least(by_copies ? by_copies : 1, PIECES_MAX);
    const uint64_t wanted = share(most_received(s), SCRATCH_BYTES, 1);

    return (uint32_t)least(wanted ? wanted : 1, most);
}

/* A stretch of elements. */
struct stretch {
    uint64_t begin, count;
};

/* That with this number of such as have `each` elements, of which the last may have fewer, or none. */
static struct stretch stretch_of(uint64_t count, uint64_t each, uint32_t number)
{
    const uint64_t begin = least(each * number, count);

    return (struct stretch){begin, least(each, count - begin)};
}

/* A piece of the vector, or of a block. */
static struct stretch piece_of(const struct shape *s, uint64_t count, uint32_t pieces,
                               uint32_t piece)
{
    const uint64_t unit = alignment_of(s) * (s->has_blocks ? 1 : s->members);

    return stretch_of(count, pieces == 1 ? count : share(count, pieces, unit), piece);
}

/* A member's part of a piece of the vector. All are of one size where that is possible. */
static struct stretch part_of(const struct shape *s, uint64_t count, uint32_t member)
{
    const uint64_t each = /* NOLINTNEXTLINE: no group is without members */
        count % s->members ? share(count, s->members, alignment_of(s)) : count / s->members;

    return stretch_of(count, each, member);
}

/* Where a member's elements of the piece lie: in the vector, or in its block. */
static struct stretch elements_of(const struct shape *s, uint32_t pieces, uint32_t piece,
                                  uint32_t member)
{
    struct stretch whole, part;

    if (s->has_blocks)
        return piece_of(s, block_count(s, member), pieces, piece);
    whole = piece_of(s, s->count, pieces, piece);
    part = part_of(s, whole.count, member);
    return (struct stretch){whole.begin + part.begin, part.count};
}

/* Bytes of what this member gets; no piece is longer than the first. */
static uint64_t received_bytes(const struct shape *s, uint32_t pieces, uint32_t rank)
{
    return elements_of(s, pieces, 0, rank).count * s->members * s->element;
}

static bool copies_pieces(const struct shape *s, uint32_t pieces)
{
    return s->has_blocks && pieces > 1;
}

uint64_t native_kernels_scratch(const struct tutti_group *group, const struct call_fields *fields,
                                const uint64_t *in_sizes)
{
    const struct shape s = shape_of(fields, group->size, in_sizes);
    const uint32_t pieces = pieces_of(&s);
    uint64_t bytes = received_bytes(&s, pieces, (uint32_t)group->rank);

    for (uint32_t r = 0; copies_pieces(&s, pieces) && r < s.members; r++)
        bytes += elements_of(&s, pieces, 0, r).count * s.element;
    return bytes;
}

/* ---- one step ---- */

struct kernel_step {
    struct shape shape;
    uint32_t rank, piece, pieces;
    bool hands_out; /* else it is an all_to_all */
    struct stretch own;
    char *scratch;
};

static struct kernel_step step_of(const struct native *n, const struct call *call)
{
    const struct native_kernels *k = &n->kernels;
    struct kernel_step step = {.shape = shape_of_call(n, call),
                               .rank = (uint32_t)call->group->rank};
    const uint32_t each = step.shape.has_blocks ? 1 : 2; /* steps of a piece */

    step.pieces = k->steps / each;
    step.piece = k->step / each;
    step.hands_out = k->step % each;
    step.own = elements_of(&step.shape, step.pieces, step.piece, step.rank);
    step.scratch = device_scratch_memory(call->packed);
    return step;
}

/* Notes how many elements each member has of the piece. Returns how many all have. */
static uint64_t count_elements(const struct kernel_step *step, uint64_t *counts, bool *ret_even)
{
    uint64_t sum = 0;

    *ret_even = true;
    for (uint32_t r = 0; r < step->shape.members; r++) {
        counts[r] = elements_of(&step->shape, step->pieces, step->piece, r).count;
        sum += counts[r];
        *ret_even = *ret_even && counts[r] == counts[0];
    }
    return sum;
}

/* Where the member's result of the piece goes: to its place in the output, or, for a root that is another member, to
 * scratch. */
static char *result_of(const struct native *n, const struct kernel_step *step)
{
    char *out = n->memory.what.out;

    return out ? out + step->own.begin * step->shape.element : step->scratch;
}

/* The blocks of the piece, one behind the other, in scratch behind what is received. */
static tutti_status copy_blocks(const struct native *n, const struct kernel_step *step)
{
    const struct shape *s = &step->shape;
    const char *block = n->memory.what.in;
    char *to = step->scratch + received_bytes(s, step->pieces, step->rank);
    tutti_status status = TUTTI_OK;

    for (uint32_t r = 0; r < s->members && !status; r++) {
        const struct stretch from = elements_of(s, step->pieces, step->piece, r);
        const uint64_t bytes = from.count * s->element;

        if (bytes)
            status =
                device_ops(n->device)->copy(device_accelerator(n->device), n->memory.what.stream,
                                            to, block + from.begin * s->element, bytes);
        block += block_count(s, r) * s->element;
        to += bytes;
    }
    return status;
}

static void describe_all_to_all(const struct native *n, const struct kernel_step *step, bool even,
                                uint64_t *counts, tutti_collective *what)
{
    const struct shape *s = &step->shape;
    const char *in = n->memory.what.in;

    for (uint32_t r = 0; r < s->members; r++)
        counts[s->members + r] = step->own.count;
    what->operation = TUTTI_COLLECTIVE_ALL_TO_ALL;
    what->count = even ? step->own.count : 0;
    what->in =
        copies_pieces(s, step->pieces) ? step->scratch + received_bytes(s, step->pieces, step->rank)
        : s->has_blocks                ? in
                        : in + elements_of(s, step->pieces, step->piece, 0).begin * s->element;
    what->out = step->scratch;
    what->in_counts = even ? NULL : counts;
    what->out_counts = even ? NULL : counts + s->members;
}

static void describe_hand_out(const struct native *n, const struct kernel_step *step, bool even,
                              uint64_t sum, const uint64_t *counts, tutti_collective *what)
{
    const struct shape *s = &step->shape;
    const bool has_root = n->memory.what.root >= 0;
    char *out = n->memory.what.out;

    what->operation = has_root ? TUTTI_COLLECTIVE_GATHER : TUTTI_COLLECTIVE_ALL_GATHER;
    what->root = n->memory.what.root;
    what->count = even ? step->own.count : has_root ? 0 : sum;
    what->in = result_of(n, step);
    what->out = out ? out + elements_of(s, step->pieces, step->piece, 0).begin * s->element : NULL;
    what->out_counts = even || !out ? NULL : counts;
}

/* The step that comes next, as the engine is told. False: nothing moves in it. */
static bool describe(struct native *n, const struct kernel_step *step)
{
    struct native_kernels *k = &n->kernels;
    bool even;
    const uint64_t sum = count_elements(step, k->counts, &even);

    k->what = n->memory.what;
    k->what.op = k->what.root = -1;
    k->what.flags = even ? 0 : TUTTI_COLLECTIVE_UNEVEN;
    k->what.own_count = step->own.count;
    k->what.in_counts = k->what.out_counts = NULL;
    if (step->hands_out)
        describe_hand_out(n, step, even, sum, k->counts, &k->what);
    else
        describe_all_to_all(n, step, even, k->counts, &k->what);
    return sum;
}

/* Behind an all_to_all. */
static tutti_status reduce_parts(const struct native *n, const struct kernel_step *step,
                                 const struct call_fields *fields)
{
    const bool in_tree =
        fields->flags & CALL_ORDERED || reduce_averages_once(fields->op, fields->dtype);
    const uint64_t stride = step->own.count * step->shape.element;
    const tutti_device_reduction what = {.struct_size = sizeof what,
                                         .flags = in_tree ? TUTTI_REDUCTION_FIXED_ORDER : 0,
                                         .dtype = fields->dtype,
                                         .op = fields->op,
                                         .dst = result_of(n, step),
                                         .first = step->scratch,
                                         .rest = step->scratch + stride,
                                         .stride = stride,
                                         .count = step->own.count,
                                         .operands = step->shape.members,
                                         .members = step->shape.members};

    if (!step->own.count)
        return TUTTI_OK;
    return device_ops(n->device)->reduce(device_accelerator(n->device), n->memory.what.stream,
                                         &what);
}

tutti_status native_kernels_begin(struct native *n, struct call *call)
{
    struct native_kernels *k = &n->kernels;
    const struct shape s = shape_of_call(n, call);

    k->counts = chain_allocate(&call->memory, 2 * (size_t)s.members * sizeof *k->counts);
    if (!k->counts)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the blocks of %u members", s.members);
    k->steps = pieces_of(&s) * (s.has_blocks ? 1 : 2);
    return TUTTI_OK;
}

static tutti_status start_step(struct native *n, const struct kernel_step *step)
{
    tutti_status status = TUTTI_OK;

    /* The engine may take the step at another try. */
    if (!step->hands_out && copies_pieces(&step->shape, step->pieces) && !n->kernels.has_copied)
        status = copy_blocks(n, step);
    n->kernels.has_copied = !status;
    if (!status)
        status = native_start_one(n, &n->kernels.what);
    return status ? status : native_failed(n, n->request.status, "complete an operation");
}

tutti_status native_kernels_go_on(struct native *n, const struct call *call)
{
    struct native_kernels *k = &n->kernels;

    while (k->step < k->steps) {
        const struct kernel_step step = step_of(n, call);
        tutti_status status = TUTTI_OK;

        if (!n->under_way && describe(n, &step))
            status = start_step(n, &step);
        if (!status && !step.hands_out)
            status = reduce_parts(n, &step, &call->announce.fields);
        if (status)
            return status;
        n->under_way = k->has_copied = false;
        k->step++;
    }
    return TUTTI_OK;
}
