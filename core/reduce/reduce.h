/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element-wise arithmetic on host memory: what all_reduce and its kin do with what arrived.
 *
 * Every kernel exists once per instruction set; the widest that this CPU runs is picked at the
 * first use. Which one it is, how pointers are aligned and how a vector is cut into calls never
 * changes a bit of the result (one exception: which of two NaNs' payloads a sum or product keeps).
 *
 * Semantics: as tutti_reduce_op_meaning() says. AVG is SUM, then one division by the number of
 * members (tree.h: before the sum of small floats is rounded, where it is at hand); of equal values (0 and -0) MIN and MAX give the second. Floats of 8 and 16 bits compute
 * in f32 and round to nearest even; a NaN stays one and becomes quiet. Too large becomes infinite
 * in 16 bits and the largest finite number in 8, but an infinity stays one where the type has one.
 * Any byte but 0 is true; results of bools are 0 or 1. Pointers need no alignment.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tutti/tensor.h>

/* dst[i] = a[i] op b[i]; dst may equal a or b exactly, otherwise nothing overlaps. */
typedef void (*reduce_fn)(void *dst, const void *a, const void *b, size_t count);

/* dst[i] = dst[i] / members, truncated toward zero for integers; members is 1 or more. Of bools:
 * dst[i] = dst[i] != 0. */
typedef void (*reduce_finish_fn)(void *dst, size_t count, uint32_t members);

/*
 * dst = ((vectors[0] op vectors[1]) op vectors[2]) …, for n of 1 or more; dst may equal any of the
 * vectors exactly, otherwise nothing overlaps it. Floats of 8 and 16 bits keep f32 partials and
 * round once, so for n > 2 the result is closer than that of n - 1 pairwise calls, and not the
 * same; for the other types it is the same.
 */
typedef void (*reduce_many_fn)(void *dst, const void *const *vectors, int n, size_t count);

/* Between small floats and the f32 in which they compute; nothing overlaps. */
typedef void (*reduce_widen_fn)(float *dst, const void *src, size_t count);
typedef void (*reduce_narrow_fn)(void *dst, const float *src, size_t count);

/* TUTTI_OK, or TUTTI_ERR_UNSUPPORTED with a message that says what the dtype takes. */
tutti_status reduce_check(tutti_reduce_op op, tutti_dtype dtype);

/* What is left to do of a built-in op when the inputs have been multiplied: PREMUL_SUM is a SUM, others are as they are. */
static inline tutti_reduce_op reduce_base(tutti_reduce_op op)
{
    return op == TUTTI_PREMUL_SUM ? TUTTI_SUM : op;
}

/* The kernels of a combination; NULL if it is not served. AVG and PREMUL_SUM give those of SUM. */
reduce_fn reduce_kernel(tutti_dtype dtype, tutti_reduce_op op);
reduce_many_fn reduce_many(tutti_dtype dtype, tutti_reduce_op op);

/*
 * What makes of a finished sum an average, and of the one operand that a group of one has what a
 * kernel gives: a bool becomes 0 or 1. NULL for what is finished as it is.
 */
reduce_finish_fn reduce_finish(tutti_dtype dtype, tutti_reduce_op op, uint32_t members);

/* Copies with ordinary stores at any size; dst may equal src, otherwise nothing overlaps. */
void reduce_copy(void *dst, const void *src, size_t bytes);

/* "avx512", "avx2" or "generic". */
const char *reduce_isa(void);
