/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that kernels.c makes, one per instruction set that it is compiled for. reduce.c picks
 * one, and the tests compare them.
 */
#pragma once

#include "reduce/reduce.h"

enum reduce_dtype {
#define REDUCE_DTYPE(NAME, name, code, bits) REDUCE_##NAME,
    TUTTI_DTYPE_LIST(REDUCE_DTYPE)
#undef REDUCE_DTYPE
        REDUCE_DTYPES
};

/* The row of the tables, or REDUCE_DTYPES. */
enum reduce_dtype reduce_row(tutti_dtype dtype);

/* The number of ops with kernels: PREMUL_SUM is a product and a sum. */
enum { REDUCE_OPS = TUTTI_BXOR + 1, REDUCE_ISAS = 3 };

/* NULL where the operation does not take the dtype. */
struct reduce_kernels {
    const char *isa;
    reduce_fn pair[REDUCE_DTYPES][REDUCE_OPS];
    reduce_many_fn many[REDUCE_DTYPES][REDUCE_OPS];
    reduce_finish_fn average[REDUCE_DTYPES];
    reduce_finish_fn truth; /* of bools */
    reduce_widen_fn widen[REDUCE_DTYPES];
    reduce_narrow_fn narrow[REDUCE_DTYPES];
    void (*copy)(void *dst, const void *src, size_t bytes);
};

extern const struct reduce_kernels reduce_kernels_generic;
#if defined(__x86_64__)
extern const struct reduce_kernels reduce_kernels_avx2, reduce_kernels_avx512;
#endif

/* The tables that this CPU runs, the widest first; returns how many, 1 or more. */
int reduce_kernels_usable(const struct reduce_kernels *ret_tables[REDUCE_ISAS]);
