/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the kernels' instruction set. Every thread that comes first finds the same answer, so the
 * choice is kept in one atomic pointer without a lock.
 */
#include "reduce/reduce.h"

#include <stdatomic.h>

#include "reduce/kernels.h"
#include "reduce/tree.h"

int reduce_kernels_usable(const struct reduce_kernels *ret_tables[REDUCE_ISAS])
{
    int n = 0;

#if defined(__x86_64__)
    /* f16c is not asked for: no CPU has AVX2 without it. */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        ret_tables[n++] = &reduce_kernels_avx512;
    if (__builtin_cpu_supports("avx2"))
        ret_tables[n++] = &reduce_kernels_avx2;
#endif
    ret_tables[n++] = &reduce_kernels_generic;
    return n;
}

static const struct reduce_kernels *kernels(void)
{
    static const struct reduce_kernels *_Atomic picked;
    const struct reduce_kernels *table = atomic_load_explicit(&picked, memory_order_relaxed);

    if (!table) {
        const struct reduce_kernels *usable[REDUCE_ISAS];

        reduce_kernels_usable(usable);
        table = usable[0];
        atomic_store_explicit(&picked, table, memory_order_relaxed);
    }
    return table;
}

enum reduce_dtype reduce_row(tutti_dtype dtype)
{
    switch (dtype) {
#define CASE(NAME, name, code, bits)                                                               \
    case TUTTI_##NAME:                                                                             \
        return REDUCE_##NAME;
        TUTTI_DTYPE_LIST(CASE)
#undef CASE
    default:
        return REDUCE_DTYPES;
    }
}

reduce_fn reduce_kernel(tutti_dtype dtype, tutti_reduce_op op)
{
    return tutti_reduce_op_meaning(op, dtype) ? kernels()->pair[reduce_row(dtype)][reduce_base(op)]
                                              : NULL;
}

reduce_many_fn reduce_many(tutti_dtype dtype, tutti_reduce_op op)
{
    return tutti_reduce_op_meaning(op, dtype) ? kernels()->many[reduce_row(dtype)][reduce_base(op)]
                                              : NULL;
}

struct reduce_tree reduce_tree_of(tutti_reduce_op op, tutti_dtype dtype)
{
    const enum reduce_dtype row = reduce_row(dtype);
    const reduce_widen_fn widen = kernels()->widen[row];

    return (struct reduce_tree){.pair = reduce_kernel(widen ? TUTTI_F32 : dtype, op),
                                .widen = widen,
                                .narrow = kernels()->narrow[row],
                                .dtype = dtype,
                                .element_bytes = (uint32_t)tutti_dtype_size(dtype)};
}

bool reduce_averages_once(tutti_reduce_op op, tutti_dtype dtype)
{
    return op == TUTTI_AVG && tutti_reduce_op_meaning(op, dtype) &&
           kernels()->widen[reduce_row(dtype)];
}

struct reduce_tree reduce_tree_of_average(tutti_dtype dtype, uint32_t members)
{
    struct reduce_tree tree = reduce_tree_of(TUTTI_AVG, dtype);

    tree.divide = kernels()->average[REDUCE_F32];
    tree.members = members;
    return tree;
}

reduce_finish_fn reduce_finish(tutti_dtype dtype, tutti_reduce_op op, uint32_t members)
{
    if (!tutti_reduce_op_meaning(op, dtype))
        return NULL;
    if (members == 1)
        return dtype == TUTTI_BOOL ? kernels()->truth : NULL;
    return op == TUTTI_AVG ? kernels()->average[reduce_row(dtype)] : NULL;
}

void reduce_copy(void *dst, const void *src, size_t bytes)
{
    kernels()->copy(dst, src, bytes);
}

const char *reduce_isa(void)
{
    return kernels()->isa;
}
