/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective call is, in the form in which members compare it: the fields of the call and
 * the chained signature. Used by the announce line in mapped memory, by the header of messages
 * and by the recorder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, "name"): the collectives, in the order of their numbers, from 1. */
#define OPERATION_LIST(X)                                                                          \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(BROADCAST, "broadcast")                                                                      \
    X(BARRIER, "barrier")                                                                          \
    X(REDUCE, "reduce")                                                                            \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(ALL_TO_ALL, "all_to_all")                                                                    \
    X(MONITORED_BARRIER, "monitored_barrier")

enum operation {
    OPERATION_NONE,
#define OPERATION_ENUM(NAME, name) OPERATION_##NAME,
    OPERATION_LIST(OPERATION_ENUM)
#undef OPERATION_ENUM
        OPERATION_COUNT
};

/* "all_reduce", …; "?" for an unknown number. */
static inline const char *operation_name(int operation)
{
    switch (operation) {
#define OPERATION_NAME(NAME, name)                                                                 \
    case OPERATION_##NAME:                                                                         \
        return name;
        OPERATION_LIST(OPERATION_NAME)
#undef OPERATION_NAME
    default:
        return "?";
    }
}

/* call_fields.flags */
enum {
    /* Blocks of different sizes. `count` is then the sum where every member knows all sizes
     * (all_gather, reduce_scatter), else 0. */
    CALL_UNEVEN = 1 << 0,
    /* Operands are reduced in the fixed order. */
    CALL_ORDERED = 1 << 1,
    /* The all_reduce by which tutti_group_split() tells colors and keys. */
    CALL_SPLIT = 1 << 2,
    /* The all_reduces by which members make registered memory. */
    CALL_REGISTER = 1 << 3,
    /* A tensor lies on a device, in a group where such calls go another way. */
    CALL_ON_DEVICE = 1 << 4,
    /* An engine takes the tensors where they lie, on devices; with CALL_ON_DEVICE. */
    CALL_DIRECT = 1 << 5,
    /* The engine launches it together with the next call, which is of the same batch; with CALL_DIRECT. */
    CALL_WITH_NEXT = 1 << 6,
    /* Its stream is captured into a graph; with CALL_DIRECT. */
    CALL_CAPTURED = 1 << 7
};

/* Everything that members must agree on, and nothing else. 24 bytes, no padding. */
struct call_fields {
    uint64_t count; /* elements: of the vector, or of each block where every member has one */
    uint32_t dtype;
    int32_t op;   /* -1: none */
    int32_t root; /* -1: none */
    uint8_t operation;
    uint8_t flags;
    uint16_t sizes; /* uneven: a digest of all sizes, where every member knows them */
};

/* The name of the call in the program. */
static inline const char *call_name(const struct call_fields *fields)
{
    return fields->flags & CALL_SPLIT      ? "group_split"
           : fields->flags & CALL_REGISTER ? "memory_register"
                                           : operation_name(fields->operation);
}

static inline bool operation_reduces(int operation)
{
    return operation == OPERATION_ALL_REDUCE || operation == OPERATION_REDUCE ||
           operation == OPERATION_REDUCE_SCATTER;
}

static inline bool operation_has_root(int operation)
{
    return operation == OPERATION_BROADCAST || operation == OPERATION_REDUCE ||
           operation == OPERATION_GATHER || operation == OPERATION_SCATTER;
}

/* Whether the input (output) is a block for every member: on the root, where there is one. */
static inline bool operation_takes_blocks(int operation)
{
    return operation == OPERATION_SCATTER || operation == OPERATION_REDUCE_SCATTER ||
           operation == OPERATION_ALL_TO_ALL;
}

static inline bool operation_gives_blocks(int operation)
{
    return operation == OPERATION_GATHER || operation == OPERATION_ALL_GATHER ||
           operation == OPERATION_ALL_TO_ALL;
}

static inline bool operation_moves(int operation)
{
    return operation != OPERATION_BARRIER && operation != OPERATION_MONITORED_BARRIER;
}

/* A block for every member on at least one side. */
static inline bool operation_has_blocks(int operation)
{
    return operation_takes_blocks(operation) || operation_gives_blocks(operation);
}

/* Of uneven blocks every member knows all sizes. */
static inline bool operation_shares_sizes(int operation)
{
    return operation == OPERATION_ALL_GATHER || operation == OPERATION_REDUCE_SCATTER;
}

struct announce {
    uint64_t sequence;
    uint64_t signature; /* of this call and, chained, of all before it */
    struct call_fields fields;
};

/* The signature behind `before` of a call whose fields have the digest: chains that differ stay so in equal calls. */
static inline uint64_t call_chain(uint64_t before, uint64_t digest)
{
    const uint64_t mixed = (before ^ digest) * UINT64_C(0x9e3779b97f4a7c15);

    return mixed ^ mixed >> 32;
}
