/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations made at run time, as calls use them. A call holds a reference from its start to its
 * end, so that the number may be given back at any time.
 *
 * Members compare calls by fields, in which a user's operation stands as a hash of its name and
 * flags, so that the number, which is this process's own, does not matter.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tutti/reduce.h>
#include <tutti/tensor.h>

#include "tensor/layout.h"

struct reduce_op;

enum { REDUCE_OPS_MADE = 1 << 30 }; /* in call fields: from here on it is a user's */

/* The meaning of an op's number in a call. */
struct reduce_choice {
    struct reduce_op *op; /* NULL: built in; else a reference for reduce_op_release() */
    int32_t in_fields;    /* what members compare */
    bool ordered;         /* the operands must keep their order */
};

/* TUTTI_OK, or TUTTI_ERR_UNSUPPORTED or TUTTI_ERR_INVALID_ARGUMENT with a message that says what would
 * work. `count`: elements of the whole input. */
tutti_status reduce_op_take(tutti_reduce_op number, tutti_dtype dtype, uint64_t count,
                            struct reduce_choice *ret_choice);
void reduce_op_unref(struct reduce_op *op);

void reduce_op_ref(struct reduce_op *op);

/* One more reference. NULL, as in most calls, is nothing. */
static inline void reduce_op_hold(struct reduce_op *op)
{
    if (op)
        reduce_op_ref(op);
}

static inline void reduce_op_release(struct reduce_op *op)
{
    if (op)
        reduce_op_unref(op);
}

/* Copies the elements of a factor to host memory, in row-major order. */
typedef tutti_status (*reduce_op_read_fn)(const tutti_tensor *factor,
                                          const struct tensor_size *size, void *to);
/* tutti_reduce_op_premul(), with what reads the factor. */
tutti_status reduce_op_make_premul(const tutti_tensor *factor, reduce_op_read_fn read,
                                   tutti_reduce_op *ret_op);

/* What stands in call fields for an op, before it is taken: PREMUL_SUM, or more for a user's own. A number that nobody
 * has made is the user's, too. */
int32_t reduce_op_in_fields(tutti_reduce_op number);

/* Whether calls multiply first; their reduction is SUM then. */
bool reduce_op_is_premul(const struct reduce_op *op);
/* The factors, from element `first` of the input on. *ret_one: there is one for all elements. */
const void *reduce_op_factors(const struct reduce_op *op, uint64_t first, bool *ret_one);
/* dst = src times the factor, from element `first` of the input on; dst may be src. */
void reduce_op_multiply(const struct reduce_op *op, void *dst, const void *src, uint64_t first,
                        uint64_t count);

/* A user's function. */
void reduce_op_call(const struct reduce_op *op, void *dst, const void *a, const void *b,
                    size_t count, tutti_dtype dtype);

enum { REDUCE_OP_TEXT = 80 };
/* Name of what stands in call fields: "sum", or that of a user's operation if this process has it. */
void reduce_op_text(int32_t in_fields, char ret_text[REDUCE_OP_TEXT]);
