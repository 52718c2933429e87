/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL moves any elements, as bytes. It reduces those that it knows; minima and maxima of floats lose a NaN there,
 * and bitwise operations, bool and products of complex numbers do not exist: the core does these. The core reduces
 * 8-bit floats, too, since NCCL refuses that where a GPU has a compute capability below 9.0. NCCL's averages of floats
 * multiply by 1 / n, which is rounded, so an average is a sum here that a kernel of the device divides (nccl.c). Blocks
 * of different sizes, and what goes from or to a root, are messages or broadcasts in one group of NCCL's.
 */
#include "operations.h"

#include <tutti/collective.h>
#include <tutti/tensor.h>

/* Elements as NCCL reduces them. */
struct unit {
    ncclDataType_t type;
    unsigned each; /* of them in an element; 0: it reduces none */
};

static struct unit unit_of(uint32_t dtype)
{
    switch (dtype) {
    case TUTTI_U8:
        return (struct unit){ncclUint8, 1};
    case TUTTI_U32:
        return (struct unit){ncclUint32, 1};
    case TUTTI_U64:
        return (struct unit){ncclUint64, 1};
    case TUTTI_I8:
        return (struct unit){ncclInt8, 1};
    case TUTTI_I32:
        return (struct unit){ncclInt32, 1};
    case TUTTI_I64:
        return (struct unit){ncclInt64, 1};
    case TUTTI_F16:
        return (struct unit){ncclFloat16, 1};
    case TUTTI_BF16:
        return (struct unit){ncclBfloat16, 1};
    case TUTTI_F32:
        return (struct unit){ncclFloat32, 1};
    case TUTTI_F64:
        return (struct unit){ncclFloat64, 1};
    case TUTTI_C64:
        return (struct unit){ncclFloat32, 2};
    case TUTTI_C128:
        return (struct unit){ncclFloat64, 2};
    default:
        return (struct unit){ncclInt8, 0};
    }
}

static bool is_integer(struct unit unit)
{
    return unit.type <= ncclUint64;
}

static bool reduces(uint32_t dtype, int32_t op)
{
    const struct unit unit = unit_of(dtype);

    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
        return unit.each;
    case TUTTI_PRODUCT:
        return unit.each == 1;
    case TUTTI_MIN:
    case TUTTI_MAX:
        return unit.each == 1 && is_integer(unit);
    default:
        return false;
    }
}

bool operations_serve(const tutti_collective *what)
{
    if (!TUTTI_HAS(what, device_type) || what->device_type != TUTTI_DEVICE_CUDA ||
        what->operation == TUTTI_COLLECTIVE_BARRIER)
        return false;
    return what->op < 0 || reduces(what->dtype, what->op);
}

static ncclRedOp_t op_of(int32_t op)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return ncclProd;
    case TUTTI_MIN:
        return ncclMin;
    case TUTTI_MAX:
        return ncclMax;
    default: /* sums, and averages, which become one */
        return ncclSum;
    }
}

/* ---- one call ---- */

struct going {
    const struct nccl_library *nccl;
    ncclComm_t comm;
    cudaStream_t stream;
    const tutti_collective *what;
    int rank;
    struct unit unit; /* bytes, where nothing is reduced */
    ncclRedOp_t op;
};

/* Of NCCL's elements. */
static uint64_t units(const struct going *g, uint64_t elements)
{
    return elements * g->unit.each;
}

/* Block `rank` of a side, as the counts say, or of so many elements each. */
struct block {
    char *at;
    uint64_t count; /* of NCCL's elements */
};

static struct block block_of(const struct going *g, const void *side, const uint64_t *counts,
                             int rank)
{
    uint64_t before = g->what->count * (uint64_t)rank;

    if (counts) {
        before = 0;
        for (int r = 0; r < rank; r++)
            before += counts[r];
    }
    return (struct block){(char *)(uintptr_t)side + before * g->what->element_bytes,
                          units(g, counts ? counts[rank] : g->what->count)};
}

static struct block in_block(const struct going *g, int rank)
{
    return block_of(g, g->what->in, g->what->in_counts, rank);
}

static struct block out_block(const struct going *g, int rank)
{
    return block_of(g, g->what->out, g->what->out_counts, rank);
}

static struct block own_in(const struct going *g)
{
    return (struct block){(char *)(uintptr_t)g->what->in, units(g, g->what->own_count)};
}

static struct block own_out(const struct going *g)
{
    return (struct block){g->what->out, units(g, g->what->own_count)};
}

/* Inside a group a call that is in progress has not failed. */
static ncclResult_t added(ncclResult_t result)
{
    return result == ncclInProgress ? ncclSuccess : result;
}

static ncclResult_t send(const struct going *g, struct block block, int to)
{
    return block.count ? added(g->nccl->ncclSend(block.at, block.count, g->unit.type, to, g->comm,
                                                 g->stream))
                       : ncclSuccess;
}

static ncclResult_t receive(const struct going *g, struct block block, int from)
{
    return block.count ? added(g->nccl->ncclRecv(block.at, block.count, g->unit.type, from, g->comm,
                                                 g->stream))
                       : ncclSuccess;
}

/* A block of this member for itself, which may be where it belongs. */
static bool is_there(const struct going *g, int rank, struct block in, struct block out)
{
    return rank == g->rank && in.at == out.at;
}

/* What goes to and comes from one member; in a group, so that all of it moves together. */
typedef ncclResult_t part(const struct going *g, int rank);

static ncclResult_t gather_part(const struct going *g, int rank)
{
    const struct block own = own_in(g);
    const int root = g->what->root;
    ncclResult_t result = ncclSuccess;

    if (rank == g->rank && !(g->rank == root && is_there(g, rank, own, out_block(g, rank))))
        result = send(g, own, root);
    if (!result && g->rank == root && !is_there(g, rank, own, out_block(g, rank)))
        result = receive(g, out_block(g, rank), rank);
    return result;
}

static ncclResult_t scatter_part(const struct going *g, int rank)
{
    const struct block own = own_out(g);
    const int root = g->what->root;
    ncclResult_t result = ncclSuccess;

    if (g->rank == root && !is_there(g, rank, in_block(g, rank), own))
        result = send(g, in_block(g, rank), rank);
    if (!result && rank == g->rank &&
        !(g->rank == root && is_there(g, rank, in_block(g, rank), own)))
        result = receive(g, own, root);
    return result;
}

static ncclResult_t all_to_all_part(const struct going *g, int rank)
{
    const ncclResult_t result = send(g, in_block(g, rank), rank);

    return result ? result : receive(g, out_block(g, rank), rank);
}

static ncclResult_t all_gather_part(const struct going *g, int rank)
{
    const struct block block = out_block(g, rank);
    const void *in = rank == g->rank ? g->what->in : block.at;

    return block.count ? added(g->nccl->ncclBroadcast(in, block.at, block.count, g->unit.type, rank,
                                                      g->comm, g->stream))
                       : ncclSuccess;
}

static ncclResult_t reduce_scatter_part(const struct going *g, int rank)
{
    const struct block block = in_block(g, rank);

    return block.count ? added(g->nccl->ncclReduce(block.at, g->what->out, block.count,
                                                   g->unit.type, g->op, rank, g->comm, g->stream))
                       : ncclSuccess;
}

static ncclResult_t by_parts(const struct going *g, part *do_part)
{
    ncclResult_t result = added(g->nccl->ncclGroupStart());

    if (result)
        return result;
    for (int r = 0; r < g->what->size && !result; r++)
        result = do_part(g, r);
    const ncclResult_t end = g->nccl->ncclGroupEnd();
    return result ? result : end;
}

static ncclResult_t start_blocks(const struct going *g)
{
    const tutti_collective *w = g->what;
    const bool uneven = w->flags & TUTTI_COLLECTIVE_UNEVEN;

    switch (w->operation) {
    case TUTTI_COLLECTIVE_ALL_GATHER:
        return uneven ? by_parts(g, all_gather_part)
                      : g->nccl->ncclAllGather(w->in, w->out, units(g, w->count), g->unit.type,
                                               g->comm, g->stream);
    case TUTTI_COLLECTIVE_REDUCE_SCATTER:
        return uneven ? by_parts(g, reduce_scatter_part)
                      : g->nccl->ncclReduceScatter(w->in, w->out, units(g, w->count), g->unit.type,
                                                   g->op, g->comm, g->stream);
    case TUTTI_COLLECTIVE_GATHER:
        return by_parts(g, gather_part);
    case TUTTI_COLLECTIVE_SCATTER:
        return by_parts(g, scatter_part);
    default:
        return by_parts(g, all_to_all_part);
    }
}

ncclResult_t operations_start(const struct nccl_library *nccl, ncclComm_t comm, int rank,
                              const tutti_collective *what)
{
    const struct unit unit =
        what->op < 0 ? (struct unit){ncclInt8, what->element_bytes} : unit_of(what->dtype);
    const ncclRedOp_t op = op_of(what->op);
    const uint64_t count = what->count * unit.each;

    switch (what->operation) {
    case TUTTI_COLLECTIVE_ALL_REDUCE:
        return nccl->ncclAllReduce(what->in, what->out, count, unit.type, op, comm, what->stream);
    case TUTTI_COLLECTIVE_REDUCE: /* a member that gets nothing has no output */
        return nccl->ncclReduce(what->in, what->out, count, unit.type, op, what->root, comm,
                                what->stream);
    case TUTTI_COLLECTIVE_BROADCAST:
        return nccl->ncclBroadcast(what->in, what->out ? what->out : (void *)(uintptr_t)what->in,
                                   count, unit.type, what->root, comm, what->stream);
    default:
        return start_blocks(&(const struct going){.nccl = nccl,
                                                  .comm = comm,
                                                  .stream = what->stream,
                                                  .what = what,
                                                  .rank = rank,
                                                  .unit = unit,
                                                  .op = op});
    }
}

ncclResult_t operations_start_all(const struct nccl_library *nccl, ncclComm_t comm, int rank,
                                  const tutti_collective *const *what, uint32_t count)
{
    ncclResult_t result = added(nccl->ncclGroupStart());

    if (result)
        return result;
    for (uint32_t i = 0; i < count && !result; i++)
        result = added(operations_start(nccl, comm, rank, what[i]));
    const ncclResult_t end = nccl->ncclGroupEnd();
    return result ? result : end;
}
