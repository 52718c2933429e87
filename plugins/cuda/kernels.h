/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of plugins/cuda: their names and what each takes. kernels.c is compiled to PTX for GPUs, and for
 * the host by the tests and the stand-in of the driver. A kernel takes one struct, by value: a launch passes the
 * address of the struct as its only entry of kernelParams.
 *
 *   tutti_reduce_DTYPE_OP    struct kernel_reduce    dst = first op rest[0] op rest[1] …, and AVG's division
 *   tutti_scale_DTYPE        struct kernel_scale     dst = src times one factor
 *   tutti_pack_BYTES         struct kernel_pack      row-major memory from strided, units of 1, 2, 4, 8, 16 bytes
 *   tutti_unpack_BYTES       struct kernel_pack      the other way
 *
 * DTYPE and OP are as tutti_dtype_name() and tutti_reduce_op_name() have them. kernel_find() of kernel_table.h
 * gives module and name of a combination; some share one (AVG has SUM's). Any grid is right, as each thread begins at
 * its number and steps by the number of threads; kernel_blocks() says which one is fast.
 *
 * Pointers come first in each struct. They need no alignment; 16 bytes of all of them make it fast. dst may be exactly one of the sources;
 * otherwise nothing overlaps. Bits are those of core/reduce: NaNs, too, but for which one of two a sum keeps.
 */
#pragma once

#include <stdint.h>

/* Operand 0 is at `first`, operand k at rest + (k - 1) * stride. */
struct kernel_reduce {
    void *dst;
    const void *first;
    const void *rest;  /* unused where operands is 1 */
    uint64_t count;    /* elements */
    uint64_t stride;   /* bytes between operands 1, 2, …; unused where operands is 2 or less */
    uint32_t operands; /* 1 to 2^16; 1 with `members`: only that. Alone it is a copy, in which NaNs
                          of small floats become quiet */
    /* 0: no more. Else the result is finished before it is rounded: a sum is divided by it, as AVG is, and a bool
     * becomes 0 or 1. Other kernels do not look at it. */
    uint32_t members;
    uint32_t fixed_order; /* 0: from left to right. 1: core/reduce's tree */
    uint32_t reserved;    /* 0 */
};

struct kernel_scale {
    void *dst;
    const void *src;
    const void *factor; /* one element, in memory of the device; NULL: it is in `value` */
    uint64_t count;     /* elements */
    uint64_t value[2];  /* the factor's bytes */
};

/* A tensor has 62 that are longer than 1; the bytes of an element may be one more. */
enum { KERNEL_DIMENSIONS = 63 };

struct kernel_pack {
    void *packed;   /* written by pack, read by unpack */
    void *strided;  /* the unit whose indices are all 0; read by pack, written by unpack */
    uint64_t begin; /* the first unit, in row-major order, of those that are moved */
    uint64_t count; /* units that are moved */
    uint32_t dimensions;
    uint32_t reserved; /* 0 */
    int64_t extent[KERNEL_DIMENSIONS];
    int64_t stride[KERNEL_DIMENSIONS]; /* bytes */
};

/* Threads of a block. */
enum { KERNEL_THREADS = 256 };

/* The host's form of all kernels, where kernels.c is compiled for it; a NULL name ends the table. */
struct host_kernel {
    const char *name;
    void (*run)(const void *arguments);
};
extern const struct host_kernel host_kernels[];
