/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduction in a fixed order: a binary tree over the vectors, split at the largest power of two
 * below their number, the lower ones on the left. It depends on n alone: not on sizes, on how a
 * vector is cut, or on which member reduces. Floats of 8 and 16 bits keep f32 partials and are
 * rounded once. Operations made at run time take the same tree, in which operands keep their order.
 * An average of small floats is divided before it is rounded.
 */
#pragma once

#include <stdbool.h>

#include "reduce/reduce.h"

struct reduce_op;

/* The parts of a reduction tree; zeroed: none. */
struct reduce_tree {
    reduce_fn pair;             /* of elements, or of f32 where they are widened; NULL: see op */
    reduce_widen_fn widen;      /* NULL: elements are their own partial results */
    reduce_narrow_fn narrow;    /* as widen */
    reduce_finish_fn divide;    /* of partial results, once all are joined; NULL: not an average */
    const struct reduce_op *op; /* NULL: built in */
    tutti_dtype dtype;
    uint32_t members; /* handed to divide */
    uint32_t element_bytes;
};

/* The tree of a combination that reduce_check() accepts. */
struct reduce_tree reduce_tree_of(tutti_reduce_op op, tutti_dtype dtype);
/* Whether sums of the op's operands are kept in another type, from which its average is rounded once. */
bool reduce_averages_once(tutti_reduce_op op, tutti_dtype dtype);
/* Of such a combination: the average over `members`, finished. */
struct reduce_tree reduce_tree_of_average(tutti_dtype dtype, uint32_t members);
struct reduce_tree reduce_tree_of_op(const struct reduce_op *op, tutti_dtype dtype);

/* As a reduce_many_fn. */
void reduce_tree(const struct reduce_tree *tree, void *dst, const void *const *vectors, int n,
                 size_t count);
/* Two vectors, as a reduce_fn. */
void reduce_tree_pair(const struct reduce_tree *tree, void *dst, const void *a, const void *b,
                      size_t count);
