/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce operations made at run time. They get numbers from 64 up, which any operation that reduces
 * takes in place of a built-in one.
 */
#ifndef TUTTI_REDUCE_H
#define TUTTI_REDUCE_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>
#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * dst[i] = a[i] op b[i] for `count` elements of `dtype`; `a` comes from the lower ranks. dst may be
 * a or b exactly, otherwise nothing overlaps; pointers may have any alignment. Must be associative.
 * Called on any thread, at the same time for different calls, any number of elements at a time; it
 * must not call tutti.
 */
typedef void (*tutti_reduce_fn)(void *dst, const void *a, const void *b, uint64_t count,
                                tutti_dtype dtype, void *user);

/* The order of the operands does not matter, so members may be reduced in any. */
#define TUTTI_REDUCE_OP_COMMUTATIVE UINT32_C(1)

/**
 * Makes an operation of the caller's own, for tensors of any dtype.
 *
 * name   what members know it by: calls match when name and flags do, whatever its number is.
 *        1 to 63 characters.
 * flags  0 or TUTTI_REDUCE_OP_COMMUTATIVE. Without it the ranks' operands keep their order.
 * user   handed to `fn`; must live until the operation was freed and no call uses it any more.
 *
 * Returns TUTTI_OK, INVALID_ARGUMENT, UNSUPPORTED (a flag that is not known), NO_MEMORY (also when
 * there are 1024 operations). Semantics: MPI_Op_create.
 */
TUTTI_API tutti_status tutti_reduce_op_create(const char *name, tutti_reduce_fn fn, uint32_t flags,
                                              void *user, tutti_reduce_op *ret_op);

/**
 * Makes a PREMUL_SUM: each member multiplies its input with its own factor, when it makes the call,
 * and the products are added. Members need not have the same factor.
 *
 * factor  is copied. One element, which multiplies all of the input's; or as many as the input has
 *         (of reduce_scatter: all blocks together), element by element. Its dtype is the only one
 *         that calls with this operation take.
 *
 * Products are rounded to the dtype; those of integers wrap. Returns TUTTI_OK, INVALID_ARGUMENT,
 * UNSUPPORTED, NO_MEMORY as above. Semantics: torch.distributed.ReduceOp.PREMUL_SUM,
 * ncclRedOpCreatePreMulSum.
 */
TUTTI_API tutti_status tutti_reduce_op_premul(const tutti_tensor *factor, tutti_reduce_op *ret_op);

/** Gives the number back. Calls that have begun still end well; any other number is ignored. */
TUTTI_API void tutti_reduce_op_free(tutti_reduce_op op);

#ifdef __cplusplus
}
#endif
#endif
