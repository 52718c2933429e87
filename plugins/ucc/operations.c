/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC refuses some calls on the rank that would reduce while the others wait for ever (16-bit floats), and gives
 * some another meaning (MIN and MAX of NaN, averages, bool). So what it is asked for is decided here, by the
 * arguments that all members share.
 *
 * What is only moved goes as bytes: then no type can be missing.
 */
#include "operations.h"

#include <limits.h>

#include <tutti/tensor.h>

/* ---- what is asked of UCC ---- */

/* Signed and unsigned integers have the same sums and products of their lowest bits, and unsigned ones wrap by
 * C's rules; only an order tells them apart. */
static const struct type {
    uint64_t ordered, other; /* UCC's */
    bool is_integer;
} types[] = {
    [TUTTI_F32] = {UCCI_FLOAT32, UCCI_FLOAT32, false},
    [TUTTI_F64] = {UCCI_FLOAT64, UCCI_FLOAT64, false},
    [TUTTI_U8] = {UCCI_UINT8, UCCI_UINT8, true},
    [TUTTI_I8] = {UCCI_INT8, UCCI_UINT8, true},
    [TUTTI_U16] = {UCCI_UINT16, UCCI_UINT16, true},
    [TUTTI_I16] = {UCCI_INT16, UCCI_UINT16, true},
    [TUTTI_U32] = {UCCI_UINT32, UCCI_UINT32, true},
    [TUTTI_I32] = {UCCI_INT32, UCCI_UINT32, true},
    [TUTTI_U64] = {UCCI_UINT64, UCCI_UINT64, true},
    [TUTTI_I64] = {UCCI_INT64, UCCI_UINT64, true},
};
enum { TYPES = sizeof types / sizeof types[0] };

static bool reduces(uint32_t dtype, int32_t op)
{
    const bool is_float = dtype == TUTTI_F32 || dtype == TUTTI_F64;

    if (op == TUTTI_SUM || op == TUTTI_PRODUCT)
        return is_float || (dtype < TYPES && types[dtype].is_integer);
    return dtype < TYPES && types[dtype].is_integer && op != TUTTI_AVG && op > TUTTI_SUM &&
           op <= TUTTI_BXOR;
}

static bool is_one_vector(const tutti_collective *what)
{
    return what->flags & TUTTI_COLLECTIVE_UNEVEN ||
           what->operation == TUTTI_COLLECTIVE_ALL_REDUCE ||
           what->operation == TUTTI_COLLECTIVE_REDUCE ||
           what->operation == TUTTI_COLLECTIVE_BROADCAST;
}

/* UCC's algorithms count in size_t, but not everywhere; longer calls were not tried. */
static bool is_too_long(const tutti_collective *what)
{
    const uint64_t blocks = is_one_vector(what) ? 1 : (uint64_t)what->size;

    return what->count > INT_MAX / what->element_bytes / blocks;
}

bool operations_serve(const tutti_collective *what)
{
    const bool uneven = what->flags & TUTTI_COLLECTIVE_UNEVEN;

    if (is_too_long(what) || (what->op >= 0 && !reduces(what->dtype, what->op)))
        return false;
    if (uneven)
        return what->operation == TUTTI_COLLECTIVE_ALL_GATHER ||
               what->operation == TUTTI_COLLECTIVE_REDUCE_SCATTER;
    return what->operation != TUTTI_COLLECTIVE_SCATTER;
}

/* ---- how ---- */

static uint64_t type_to_reduce(uint32_t dtype, int32_t op)
{
    return op == TUTTI_MIN || op == TUTTI_MAX ? types[dtype].ordered : types[dtype].other;
}

static uint32_t op_of(int32_t op)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return UCCI_PROD;
    case TUTTI_MIN:
        return UCCI_MIN;
    case TUTTI_MAX:
        return UCCI_MAX;
    case TUTTI_BAND:
        return UCCI_BAND;
    case TUTTI_BOR:
        return UCCI_BOR;
    case TUTTI_BXOR:
        return UCCI_BXOR;
    default:
        return UCCI_SUM;
    }
}

static uint32_t type_of_call(const tutti_collective *what)
{
    const bool uneven = what->flags & TUTTI_COLLECTIVE_UNEVEN;

    switch (what->operation) {
    case TUTTI_COLLECTIVE_ALL_REDUCE:
        return UCCI_ALLREDUCE;
    case TUTTI_COLLECTIVE_BROADCAST:
        return UCCI_BCAST;
    case TUTTI_COLLECTIVE_REDUCE:
        return UCCI_REDUCE;
    case TUTTI_COLLECTIVE_ALL_GATHER:
        return uneven ? UCCI_ALLGATHERV : UCCI_ALLGATHER;
    case TUTTI_COLLECTIVE_GATHER:
        return UCCI_GATHER;
    case TUTTI_COLLECTIVE_REDUCE_SCATTER:
        return uneven ? UCCI_REDUCE_SCATTERV : UCCI_REDUCE_SCATTER;
    case TUTTI_COLLECTIVE_ALL_TO_ALL:
        return UCCI_ALLTOALL;
    default:
        return UCCI_BARRIER;
    }
}

const char *operations_name(const tutti_collective *what)
{
    switch (type_of_call(what)) {
    case UCCI_ALLREDUCE:
        return "Allreduce";
    case UCCI_BCAST:
        return "Bcast";
    case UCCI_REDUCE:
        return "Reduce";
    case UCCI_ALLGATHER:
        return "Allgather";
    case UCCI_ALLGATHERV:
        return "Allgatherv";
    case UCCI_GATHER:
        return "Gather";
    case UCCI_REDUCE_SCATTER:
        return "Reduce_scatter";
    case UCCI_REDUCE_SCATTERV:
        return "Reduce_scatterv";
    case UCCI_ALLTOALL:
        return "Alltoall";
    default:
        return "Barrier";
    }
}

/* UCC's type, and how many of it make an element. */
struct unit {
    uint64_t type, each;
};

static ucci_side vector(const void *data, uint64_t count, struct unit unit)
{
    return (ucci_side){.even = {.buffer = (void *)(uintptr_t)data,
                                .count = count * unit.each,
                                .datatype = unit.type,
                                .memory = UCCI_MEMORY_HOST}};
}

static ucci_side blocks(const void *data, const uint64_t *elements, int size, struct unit unit,
                        uint64_t *counts, uint64_t *places)
{
    uint64_t place = 0;

    for (int r = 0; r < size; r++) {
        counts[r] = elements[r] * unit.each;
        places[r] = place;
        place += counts[r];
    }
    return (ucci_side){.uneven = {.buffer = (void *)(uintptr_t)data,
                                  .counts = counts,
                                  .displacements = places,
                                  .datatype = unit.type,
                                  .memory = UCCI_MEMORY_HOST}};
}

/* The member's vector or block lies where it belongs among the blocks of all. */
static bool is_in_place(const tutti_collective *what, int rank)
{
    const uint8_t *in = what->in, *out = what->out;
    uint64_t before = (uint64_t)rank * what->own_count;

    if (what->operation == TUTTI_COLLECTIVE_ALL_REDUCE ||
        what->operation == TUTTI_COLLECTIVE_REDUCE)
        return in == out;
    if (what->operation != TUTTI_COLLECTIVE_ALL_GATHER &&
        what->operation != TUTTI_COLLECTIVE_GATHER)
        return false;
    if (what->out_counts) {
        before = 0;
        for (int r = 0; r < rank; r++)
            before += what->out_counts[r];
    }
    return out && in == out + before * what->element_bytes;
}

static void fill_even(const tutti_collective *what, struct unit unit, ucci_coll_args *args)
{
    const uint64_t all = what->count * (uint64_t)what->size;

    switch (what->operation) {
    case TUTTI_COLLECTIVE_BARRIER:
        break;
    case TUTTI_COLLECTIVE_BROADCAST:
        args->src = vector(what->out ? what->out : what->in, what->count, unit);
        break;
    case TUTTI_COLLECTIVE_ALL_GATHER:
    case TUTTI_COLLECTIVE_GATHER:
        args->src = vector(what->in, what->count, unit);
        args->dst = vector(what->out, all, unit);
        break;
    case TUTTI_COLLECTIVE_ALL_TO_ALL:
        args->src = vector(what->in, all, unit);
        args->dst = vector(what->out, all, unit);
        break;
    case TUTTI_COLLECTIVE_REDUCE_SCATTER:
        args->src = vector(what->in, all, unit);
        args->dst = vector(what->out, what->count, unit);
        break;
    default: /* all_reduce, reduce */
        args->src = vector(what->in, what->count, unit);
        args->dst = vector(what->out, what->count, unit);
    }
}

static void fill_uneven(const tutti_collective *what, struct unit unit, uint64_t *counts,
                        uint64_t *places, ucci_coll_args *args)
{
    args->flags |= UCCI_FLAG_COUNT_64BIT | UCCI_FLAG_DISPLACEMENTS_64BIT;
    if (what->operation == TUTTI_COLLECTIVE_REDUCE_SCATTER) {
        args->src = vector(what->in, what->count, unit);
        args->dst = blocks(what->out, what->in_counts, what->size, unit, counts, places);
    } else {
        args->src = vector(what->in, what->own_count, unit);
        args->dst = blocks(what->out, what->out_counts, what->size, unit, counts, places);
    }
}

void operations_fill(const tutti_collective *what, int rank, uint64_t *counts, uint64_t *places,
                     ucci_coll_args *ret_args)
{
    const struct unit unit = what->op >= 0 ? (struct unit){type_to_reduce(what->dtype, what->op), 1}
                                           : (struct unit){UCCI_UINT8, what->element_bytes};

    *ret_args = (ucci_coll_args){.mask = UCCI_ARGS_FIELD_FLAGS,
                                 .coll_type = type_of_call(what),
                                 .op = op_of(what->op),
                                 .root = what->root >= 0 ? (uint64_t)what->root : 0,
                                 .flags = is_in_place(what, rank) ? UCCI_FLAG_IN_PLACE : 0};
    if (what->flags & TUTTI_COLLECTIVE_UNEVEN)
        fill_uneven(what, unit, counts, places, ret_args);
    else
        fill_even(what, unit, ret_args);
}
