/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce operations made at run time. They get numbers from 64 up. Every operation that reduces takes
 * them in place of a built-in one.
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
 * exactly a or b; otherwise the memory does not overlap. Pointers may have any alignment. The function
 * must be associative, and must not call tutti. tutti calls it on any thread, at the same time for
 * different calls, with any number of elements.
 */
typedef void (*tutti_reduce_fn)(void *dst, const void *a, const void *b, uint64_t count,
                                tutti_dtype dtype, void *user);

/* The order of the operands does not matter, so members may be reduced in any. */
#define TUTTI_REDUCE_OP_COMMUTATIVE UINT32_C(1)

/**
 * Makes an operation of the caller's own, for tensors of any dtype.
 *
 * name   identifies the operation among members: calls match if name and flags are the same; the
 *        numbers may differ. 1 to 63 characters.
 * flags  0 or TUTTI_REDUCE_OP_COMMUTATIVE. Without it the ranks' operands keep their order.
 * user   passed to `fn`; must stay valid until the operation is freed and no call uses it.
 *
 * Returns TUTTI_OK, INVALID_ARGUMENT, UNSUPPORTED (a flag that is not known), NO_MEMORY (also when
 * there are 1024 operations). Semantics: MPI_Op_create.
 */
TUTTI_API tutti_status tutti_reduce_op_create(const char *name, tutti_reduce_fn fn, uint32_t flags,
                                              void *user, tutti_reduce_op *ret_op);

/**
 * Makes a PREMUL_SUM: each member multiplies its input by its own factor when it makes the call, and
 * the products are added. Members may have different factors.
 *
 * factor  copied, from a device in the order of its legacy stream; may be read-only. Either one element for the whole input, or as many elements as
 *         the input has (for reduce_scatter: all blocks together). Calls with this operation take
 *         tensors of the factor's dtype only.
 *
 * Products are rounded to the dtype; those of integers wrap. Returns TUTTI_OK, INVALID_ARGUMENT,
 * UNSUPPORTED, NO_MEMORY as above. Semantics: torch.distributed.ReduceOp.PREMUL_SUM,
 * ncclRedOpCreatePreMulSum.
 */
TUTTI_API tutti_status tutti_reduce_op_premul(const tutti_tensor *factor, tutti_reduce_op *ret_op);

/** Frees the operation. Calls in progress are unaffected; any other number is ignored. */
TUTTI_API void tutti_reduce_op_free(tutti_reduce_op op);

#ifdef __cplusplus
}
#endif
#endif
