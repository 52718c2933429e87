/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of plugins/cuda compared bit by bit with those of core/reduce and core/tensor. What runs the kernels is
 * the caller's: the host's form in a unit test, a driver in gpu_kernels.c.
 */
#pragma once

#include <stddef.h>

#include "kernel_table.h"

struct runner {
    void *(*allocate)(
        size_t bytes); /* memory of the kernels, aligned to 256; kept until the process ends */
    void (*put)(void *to, const void *from, size_t bytes);
    void (*get)(void *to, const void *from, size_t bytes);
    /* Runs a kernel to its end. `bytes`: of the result. */
    void (*run)(const struct kernel_id *id, void *arguments, size_t bytes);
};

enum { TRIAL_ROWS = 17 }; /* dtypes that take reductions */

/* Each returns the number of elements that differ, and prints the first ones to stderr. */

/* Two operands and many, in both orders, averages, every alignment that matters, and dst as an operand. */
int trial_reduce(const struct runner *runner, int row);
/* Every number of 8 and 16 bits as first operand; of 8 bits with every second one, of 16 bits with some. */
int trial_small(const struct runner *runner);
int trial_scale(const struct runner *runner);
/* Views with any order of dimensions, gaps, steps of both signs and alignment; whole and in pieces. */
int trial_pack(const struct runner *runner);
/* Of a view with more than 2^32 elements, a piece behind the 2^32nd. */
int trial_pack_far(const struct runner *runner);
