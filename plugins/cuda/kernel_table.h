/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the kernels: which module and which name serves a combination, and how to launch it. A module is
 * the PTX of one kind of elements. The driver compiles a module when it is loaded, so load one when it is first
 * needed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tensor.h>

#include "kernels.h"

enum { KERNEL_NAME_BYTES = 40 };

/* X(name): the modules. */
#define KERNEL_MODULES(X)                                                                          \
    X(move)                                                                                        \
    X(bool)                                                                                        \
    X(u8) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64) X(f8e4m3fn) X(f8e5m2) X(c64) X(c128)

enum kernel_module {
#define KERNEL_MODULE(name) KERNEL_MODULE_##name,
    KERNEL_MODULES(KERNEL_MODULE)
#undef KERNEL_MODULE
        KERNEL_MODULE_COUNT
};

struct kernel_id {
    enum kernel_module module;
    char name[KERNEL_NAME_BYTES];
};

/* The PTX of a module, for cuModuleLoadData(); ends with NUL. */
const char *kernel_ptx(enum kernel_module module);

/* The kernel of a built-in op: false where tutti_reduce_op_meaning() is NULL. AVG and PREMUL_SUM have SUM's. */
bool kernel_find_reduce(tutti_dtype dtype, tutti_reduce_op op, struct kernel_id *ret_id);
/* The kernel that multiplies by a factor; false where PREMUL_SUM does not take the dtype. */
bool kernel_find_scale(tutti_dtype dtype, struct kernel_id *ret_id);

/*
 * Fills in `ret_pack` and finds its kernel for the elements begin .. begin + count - 1, in row-major order, of a view
 * whose first element is at `first`; `packed` is the place of element `begin`. At most KERNEL_DIMENSIONS - 1
 * dimensions, strides in bytes, elements of 1, 2, 4, 8 or 16 bytes. Runs of neighbours are moved in units of up to
 * 16 bytes, and elements that are not aligned in smaller ones.
 */
struct kernel_view {
    void *first;
    uint32_t element_bytes;
    uint32_t dimensions; /* 0: one element */
    const int64_t *extent;
    const int64_t *stride;
};

void kernel_find_pack(const struct kernel_view *view, void *packed, uint64_t begin, uint64_t count,
                      bool unpack, struct kernel_pack *ret_pack, struct kernel_id *ret_id);

/* Blocks of KERNEL_THREADS threads for so many bytes of result on a GPU of `processors` multiprocessors. */
uint32_t kernel_blocks(uint64_t bytes, uint32_t processors);
