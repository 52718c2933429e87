/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of what each operation does with each dtype. The guide's table is written from it,
 * calls are refused by it, and the tests compare the kernels with it: a cell is empty exactly where
 * there is no kernel.
 */
#include "base/error.h"
#include "base/text.h"
#include "reduce/kernels.h"

/* The columns of the table, in this order. */
enum dtype_class { BOOLEAN, INTEGER, FLOAT, SMALL_FLOAT, EIGHT, COMPLEX, CLASSES };

enum { OPS = TUTTI_PREMUL_SUM + 1 };

static const char *const meanings[OPS][CLASSES] = {
    [TUTTI_SUM] = {"or", "sum, wraps", "sum", "sum, in f32", "sum, in f32, saturates", "sum"},
    [TUTTI_AVG] = {NULL, "sum, divided, truncated", "sum, divided", "sum, in f32, divided",
                   "sum, in f32, divided", "sum, divided"},
    [TUTTI_PRODUCT] = {"and", "product, wraps", "product", "product, in f32",
                       "product, in f32, saturates", "product"},
    [TUTTI_MIN] = {"and", "least", "least, or NaN", "least, or NaN", "least, or NaN"},
    [TUTTI_MAX] = {"or", "largest", "largest, or NaN", "largest, or NaN", "largest, or NaN"},
    [TUTTI_BAND] = {"and", "and"},
    [TUTTI_BOR] = {"or", "or"},
    [TUTTI_BXOR] = {"exclusive or", "exclusive or"},
    [TUTTI_PREMUL_SUM] = {NULL, "products, summed, wraps", "products, summed",
                          "products, rounded, summed in f32",
                          "products, rounded, summed in f32, saturates", "products, summed"},
};

/* CLASSES: unknown, or only moved. */
static enum dtype_class class_of(tutti_dtype dtype)
{
    static const uint8_t classes[] = {
        [REDUCE_BOOL] = BOOLEAN,    [REDUCE_U8] = INTEGER,       [REDUCE_U16] = INTEGER,
        [REDUCE_U32] = INTEGER,     [REDUCE_U64] = INTEGER,      [REDUCE_I8] = INTEGER,
        [REDUCE_I16] = INTEGER,     [REDUCE_I32] = INTEGER,      [REDUCE_I64] = INTEGER,
        [REDUCE_F16] = SMALL_FLOAT, [REDUCE_BF16] = SMALL_FLOAT, [REDUCE_F32] = FLOAT,
        [REDUCE_F64] = FLOAT,       [REDUCE_F8E4M3FN] = EIGHT,   [REDUCE_F8E5M2] = EIGHT,
        [REDUCE_C64] = COMPLEX,     [REDUCE_C128] = COMPLEX,     [REDUCE_DTYPES] = CLASSES};

    return classes[reduce_row(dtype)];
}

const char *tutti_reduce_op_meaning(tutti_reduce_op op, tutti_dtype dtype)
{
    const enum dtype_class class = class_of(dtype);

    return class == CLASSES || op < 0 || op >= OPS ? NULL : meanings[op][class];
}

/* "sum, avg and min" */
static void list_ops(tutti_dtype dtype, struct text *list)
{
    tutti_reduce_op last = OPS - 1;

    while (last > 0 && !tutti_reduce_op_meaning(last, dtype))
        last--;
    for (tutti_reduce_op op = 0; op <= last; op++) {
        if (!tutti_reduce_op_meaning(op, dtype))
            continue;
        if (list->used)
            text_add(list, "%s", op == last ? " and " : ", ");
        text_add(list, "%s", tutti_reduce_op_name(op));
    }
}

tutti_status reduce_check(tutti_reduce_op op, tutti_dtype dtype)
{
    char taken[128];
    struct text list = text_in(taken, sizeof taken);

    if (op < 0 || op >= OPS)
        return error_set(TUTTI_ERR_UNSUPPORTED, "reduce op %d is not known", op);
    if (class_of(dtype) == CLASSES)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "elements of %s are only moved: %s does not take them; make an operation "
                         "with tutti_reduce_op_create()",
                         tutti_dtype_name(dtype), tutti_reduce_op_name(op));
    if (!tutti_reduce_op_meaning(op, dtype)) {
        list_ops(dtype, &list);
        return error_set(TUTTI_ERR_UNSUPPORTED, "%s does not take %s; what takes it: %s",
                         tutti_reduce_op_name(op), tutti_dtype_name(dtype), taken);
    }
    return TUTTI_OK;
}
