/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each operation sends, receives and reduces.
 *
 * All go straight from member to member. An allreduce has two phases: in the first each member gets its block
 * from all, and after reducing it gives it to all. Sums are made in the order of members, so that all get the
 * same bytes. What reduces receives into `scratch`, one part for each member.
 */
#include "ucc.h"

#include <stdlib.h>
#include <string.h>

static uint8_t token = 1; /* what a barrier sends; and where it receives, which nobody reads */
static uint8_t heard[1];

struct view {
    struct operation *op;
    size_t members, me, root, bytes; /* of an element */
    bool in_place;
};

static void give(const struct view *v, int phase, size_t to, const void *at, size_t bytes)
{
    v->op->sends[phase][to] = (struct part){.at = (uint8_t *)at, .bytes = bytes};
}

static void take(const struct view *v, int phase, size_t from, void *at, size_t bytes)
{
    v->op->receives[phase][from] = (struct part){.at = at, .bytes = bytes};
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memmove(to, from, bytes);
}

/* The i-th of an array of counts or displacements. */
static uint64_t entry(const uint64_t *array, size_t i, uint64_t flags, uint64_t wide)
{
    return flags & wide ? array[i] : ((const uint32_t *)array)[i];
}

static size_t bytes_of(const struct view *v, const ucci_buffer_v *side, size_t i)
{
    return entry(side->counts, i, v->op->args.flags, UCCI_FLAG_COUNT_64BIT) * v->bytes;
}

static uint8_t *place_of(const struct view *v, const ucci_buffer_v *side, size_t i)
{
    return (uint8_t *)side->buffer +
           entry(side->displacements, i, v->op->args.flags, UCCI_FLAG_DISPLACEMENTS_64BIT) *
               v->bytes;
}

/* Blocks of an even division: the first ones have one element more. */
static size_t block_start(size_t count, size_t members, size_t block)
{
    const size_t more = count % members;

    return block * (count / members) + (block < more ? block : more);
}

static size_t block_count(size_t count, size_t members, size_t block)
{
    return block_start(count, members, block + 1) - block_start(count, members, block);
}

/* ---- reductions ----------------------------------------------------------------------------- */

/* This member reduces `count` elements, its own at `own`, into `into`. */
static ucci_status reduce_here(const struct view *v, const void *own, void *into, size_t count)
{
    struct operation *op = v->op;
    const size_t bytes = count * v->bytes;

    op->scratch = malloc(v->members * bytes + 1);
    if (!op->scratch)
        return UCCI_ERR_NO_MEMORY;
    op->own = own;
    op->into = into;
    op->count = count;
    for (size_t m = 0; m < v->members; m++)
        if (m != v->me)
            take(v, 0, m, op->scratch + m * bytes, bytes);
    return UCCI_OK;
}

static ucci_status plan_allreduce(const struct view *v)
{
    const ucci_buffer *dst = &v->op->args.dst.even;
    const uint8_t *from = v->in_place ? dst->buffer : v->op->args.src.even.buffer;
    uint8_t *to = dst->buffer;
    const size_t n = v->members, mine = block_start(dst->count, n, v->me) * v->bytes;
    const size_t own_count = block_count(dst->count, n, v->me);

    for (size_t m = 0; m < n; m++) {
        const size_t at = block_start(dst->count, n, m) * v->bytes;
        const size_t bytes = block_count(dst->count, n, m) * v->bytes;

        if (m == v->me)
            continue;
        give(v, 0, m, from + at, bytes);
        take(v, 1, m, to + at, bytes);
        give(v, 1, m, to + mine, own_count * v->bytes);
    }
    return reduce_here(v, from + mine, to + mine, own_count);
}

static ucci_status plan_reduce(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;

    if (v->me != v->root) {
        give(v, 0, v->root, args->src.even.buffer, args->src.even.count * v->bytes);
        return UCCI_OK;
    }
    return reduce_here(v, v->in_place ? args->dst.even.buffer : args->src.even.buffer,
                       args->dst.even.buffer, args->dst.even.count);
}

static ucci_status plan_reduce_scatter(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;
    const ucci_buffer *dst = &args->dst.even;
    const size_t count = v->in_place ? dst->count : dst->count * v->members;
    const uint8_t *from = v->in_place ? dst->buffer : args->src.even.buffer;
    const size_t mine = block_start(count, v->members, v->me) * v->bytes;

    for (size_t m = 0; m < v->members; m++)
        if (m != v->me)
            give(v, 0, m, from + block_start(count, v->members, m) * v->bytes,
                 block_count(count, v->members, m) * v->bytes);
    return reduce_here(v, from + mine, (uint8_t *)dst->buffer + (v->in_place ? mine : 0),
                       block_count(count, v->members, v->me));
}

/* The blocks lie one behind the other, whatever the displacements say. */
static ucci_status plan_reduce_scatterv(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;
    const ucci_buffer_v *dst = &args->dst.uneven;
    const uint8_t *from = v->in_place ? dst->buffer : args->src.even.buffer;
    size_t at = 0, mine = 0;

    for (size_t m = 0; m < v->members; m++) {
        if (m == v->me)
            mine = at;
        else
            give(v, 0, m, from + at, bytes_of(v, dst, m));
        at += bytes_of(v, dst, m);
    }
    return reduce_here(v, from + mine, (uint8_t *)dst->buffer + (v->in_place ? mine : 0),
                       bytes_of(v, dst, v->me) / v->bytes);
}

/* ---- the others ----------------------------------------------------------------------------- */

static ucci_status plan_allgather(const struct view *v)
{
    const ucci_buffer *dst = &v->op->args.dst.even;
    const size_t bytes = dst->count / v->members * v->bytes;
    uint8_t *to = dst->buffer, *mine = to + v->me * bytes;

    if (!v->in_place)
        copy(mine, v->op->args.src.even.buffer, bytes);
    for (size_t m = 0; m < v->members; m++)
        if (m != v->me) {
            give(v, 0, m, mine, bytes);
            take(v, 0, m, to + m * bytes, bytes);
        }
    return UCCI_OK;
}

static ucci_status plan_allgatherv(const struct view *v)
{
    const ucci_buffer_v *dst = &v->op->args.dst.uneven;
    uint8_t *mine = place_of(v, dst, v->me);
    const size_t bytes = bytes_of(v, dst, v->me);

    if (!v->in_place)
        copy(mine, v->op->args.src.even.buffer, bytes);
    for (size_t m = 0; m < v->members; m++)
        if (m != v->me) {
            give(v, 0, m, mine, bytes);
            take(v, 0, m, place_of(v, dst, m), bytes_of(v, dst, m));
        }
    return UCCI_OK;
}

static ucci_status plan_alltoall(const struct view *v)
{
    const ucci_buffer *src = &v->op->args.src.even, *dst = &v->op->args.dst.even;
    const size_t bytes = dst->count / v->members * v->bytes;

    for (size_t m = 0; m < v->members; m++) {
        uint8_t *from = (uint8_t *)src->buffer + m * bytes,
                *to = (uint8_t *)dst->buffer + m * bytes;

        if (m == v->me) {
            copy(to, from, bytes);
        } else {
            give(v, 0, m, from, bytes);
            take(v, 0, m, to, bytes);
        }
    }
    return UCCI_OK;
}

static ucci_status plan_alltoallv(const struct view *v)
{
    const ucci_buffer_v *src = &v->op->args.src.uneven, *dst = &v->op->args.dst.uneven;

    for (size_t m = 0; m < v->members; m++) {
        if (m == v->me) {
            copy(place_of(v, dst, m), place_of(v, src, m), bytes_of(v, dst, m));
        } else {
            give(v, 0, m, place_of(v, src, m), bytes_of(v, src, m));
            take(v, 0, m, place_of(v, dst, m), bytes_of(v, dst, m));
        }
    }
    return UCCI_OK;
}

static ucci_status plan_bcast(const struct view *v)
{
    const ucci_buffer *buffer = &v->op->args.src.even;

    if (v->me != v->root)
        take(v, 0, v->root, buffer->buffer, buffer->count * v->bytes);
    for (size_t m = 0; v->me == v->root && m < v->members; m++)
        if (m != v->me)
            give(v, 0, m, buffer->buffer, buffer->count * v->bytes);
    return UCCI_OK;
}

static ucci_status plan_gather(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;
    const ucci_buffer *src = &args->src.even, *dst = &args->dst.even;

    if (v->me != v->root) {
        give(v, 0, v->root, src->buffer, src->count * v->bytes);
        return UCCI_OK;
    }
    const size_t bytes = dst->count / v->members * v->bytes;

    for (size_t m = 0; m < v->members; m++)
        if (m != v->me)
            take(v, 0, m, (uint8_t *)dst->buffer + m * bytes, bytes);
    if (!v->in_place)
        copy((uint8_t *)dst->buffer + v->me * bytes, src->buffer, bytes);
    return UCCI_OK;
}

static ucci_status plan_gatherv(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;
    const ucci_buffer_v *dst = &args->dst.uneven;

    if (v->me != v->root) {
        give(v, 0, v->root, args->src.even.buffer, args->src.even.count * v->bytes);
        return UCCI_OK;
    }
    for (size_t m = 0; m < v->members; m++)
        if (m != v->me)
            take(v, 0, m, place_of(v, dst, m), bytes_of(v, dst, m));
    if (!v->in_place)
        copy(place_of(v, dst, v->me), args->src.even.buffer, bytes_of(v, dst, v->me));
    return UCCI_OK;
}

static ucci_status plan_scatterv(const struct view *v)
{
    const ucci_coll_args *args = &v->op->args;
    const ucci_buffer_v *src = &args->src.uneven;

    if (v->me != v->root) {
        take(v, 0, v->root, args->dst.even.buffer, args->dst.even.count * v->bytes);
        return UCCI_OK;
    }
    for (size_t m = 0; m < v->members; m++)
        if (m != v->me)
            give(v, 0, m, place_of(v, src, m), bytes_of(v, src, m));
    if (!v->in_place)
        copy(args->dst.even.buffer, place_of(v, src, v->me), bytes_of(v, src, v->me));
    return UCCI_OK;
}

/* One byte from those who arrive; one to those who may leave. */
static ucci_status plan_tokens(const struct view *v)
{
    const uint32_t kind = v->op->args.coll_type;

    for (size_t m = 0; m < v->members; m++) {
        const bool hears = kind == UCCI_BARRIER || (kind == UCCI_FANIN ? v->me : m) == v->root;
        const bool speaks = kind == UCCI_BARRIER || (kind == UCCI_FANIN ? m : v->me) == v->root;

        if (m != v->me && hears)
            take(v, 0, m, heard, sizeof heard);
        if (m != v->me && speaks)
            give(v, 0, m, &token, sizeof token);
    }
    return UCCI_OK;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static const struct {
    uint32_t kind;
    ucci_status (*plan)(const struct view *view);
} plans[] = {
    {UCCI_ALLGATHER, plan_allgather},
    {UCCI_ALLGATHERV, plan_allgatherv},
    {UCCI_ALLREDUCE, plan_allreduce},
    {UCCI_ALLTOALL, plan_alltoall},
    {UCCI_ALLTOALLV, plan_alltoallv},
    {UCCI_BARRIER | UCCI_FANIN | UCCI_FANOUT, plan_tokens},
    {UCCI_BCAST, plan_bcast},
    {UCCI_GATHER, plan_gather},
    {UCCI_GATHERV, plan_gatherv},
    {UCCI_REDUCE, plan_reduce},
    {UCCI_REDUCE_SCATTER, plan_reduce_scatter},
    {UCCI_REDUCE_SCATTERV, plan_reduce_scatterv},
    {UCCI_SCATTERV, plan_scatterv},
};

uint64_t operation_datatype(const ucci_coll_args *args, size_t me)
{
    const bool root = args->root == me;

    switch (args->coll_type) {
    case UCCI_BARRIER:
    case UCCI_FANIN:
    case UCCI_FANOUT:
        return UCCI_UINT8;
    case UCCI_BCAST:
        return args->src.even.datatype;
    case UCCI_GATHER:
    case UCCI_REDUCE:
        return root ? args->dst.even.datatype : args->src.even.datatype;
    case UCCI_GATHERV:
        return root ? args->dst.uneven.datatype : args->src.even.datatype;
    case UCCI_SCATTERV:
        return root ? args->src.uneven.datatype : args->dst.even.datatype;
    case UCCI_ALLGATHERV:
    case UCCI_ALLTOALLV:
    case UCCI_REDUCE_SCATTERV:
        return args->dst.uneven.datatype;
    default:
        return args->dst.even.datatype;
    }
}

ucci_status operation_plan(struct operation *op)
{
    const struct view view = {
        .op = op,
        .members = op->team->size,
        .me = op->team->place,
        .root = op->args.root,
        .bytes = datatype_bytes(operation_datatype(&op->args, op->team->place)),
        .in_place = op->args.flags & UCCI_FLAG_IN_PLACE,
    };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (plans[i].kind & op->args.coll_type)
            return plans[i].plan(&view);
    return UCCI_ERR_NOT_SUPPORTED;
}
