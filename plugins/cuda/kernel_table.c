/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of kernel_table.h. The PTX is text of the shared object: the assembler includes the files of ptx/ as they
 * are, so what is loaded is what was compared.
 */
#include "kernel_table.h"

#include <stdio.h>
#include <string.h>

#ifndef KERNEL_PTX_FOLDER
#define KERNEL_PTX_FOLDER "plugins/cuda/ptx" /* for a compiler that runs in the root of the tree */
#endif

#define PTX(name)                                                                                  \
    __asm__(".pushsection .rodata\n"                                                               \
            ".hidden tutti_ptx_" #name "\n"                                                        \
            ".globl tutti_ptx_" #name "\n"                                                         \
            "tutti_ptx_" #name ":\n"                                                               \
            ".incbin \"" KERNEL_PTX_FOLDER "/" #name ".ptx\"\n"                                    \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char tutti_ptx_##name[];
KERNEL_MODULES(PTX)

const char *kernel_ptx(enum kernel_module module)
{
    static const char *const texts[] = {
#define TEXT(name) [KERNEL_MODULE_##name] = tutti_ptx_##name,
        KERNEL_MODULES(TEXT)
#undef TEXT
    };

    return texts[module];
}

/* What operations a dtype takes. */
enum kind { BOOLEAN, INTEGER, REAL, COMPLEX };

/* Integers of one width share a module, and what does not depend on the sign. */
struct row {
    tutti_dtype dtype;
    enum kind kind;
    const char *name;
    const char *shared;
    enum kernel_module module;
};

static const struct row rows[] = {
#define ROW(NAME, kind, name, shared) {TUTTI_##NAME, kind, #name, #shared, KERNEL_MODULE_##shared},
    ROW(BOOL, BOOLEAN, bool, bool) ROW(U8, INTEGER, u8, u8) ROW(U16, INTEGER, u16, u16)
        ROW(U32, INTEGER, u32, u32) ROW(U64, INTEGER, u64, u64) ROW(I8, INTEGER, i8, u8)
            ROW(I16, INTEGER, i16, u16) ROW(I32, INTEGER, i32, u32) ROW(I64, INTEGER, i64, u64)
                ROW(F16, REAL, f16, f16) ROW(BF16, REAL, bf16, bf16) ROW(F32, REAL, f32, f32)
                    ROW(F64, REAL, f64, f64) ROW(F8E4M3FN, REAL, f8e4m3fn, f8e4m3fn)
                        ROW(F8E5M2, REAL, f8e5m2, f8e5m2) ROW(C64, COMPLEX, c64, c64)
                            ROW(C128, COMPLEX, c128, c128)
#undef ROW
};

static const struct row *find_row(tutti_dtype dtype)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].dtype == dtype)
            return &rows[i];
    return NULL;
}

/* The kernel's operation; NULL: the kind does not take it. Of bools, MIN and the like are what 0 and 1 make of them. */
static const char *op_name(enum kind kind, tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
        return "sum";
    case TUTTI_AVG:
    case TUTTI_PREMUL_SUM:
        return kind == BOOLEAN ? NULL : "sum";
    case TUTTI_PRODUCT:
        return "product";
    case TUTTI_MIN:
        return kind == BOOLEAN ? "product" : kind == COMPLEX ? NULL : "min";
    case TUTTI_MAX:
        return kind == BOOLEAN ? "sum" : kind == COMPLEX ? NULL : "max";
    case TUTTI_BAND:
        return kind == BOOLEAN ? "product" : kind == INTEGER ? "band" : NULL;
    case TUTTI_BOR:
        return kind == BOOLEAN ? "sum" : kind == INTEGER ? "bor" : NULL;
    case TUTTI_BXOR:
        return kind == BOOLEAN || kind == INTEGER ? "bxor" : NULL;
    default:
        return NULL;
    }
}

/* AVG's division, and the order, depend on the sign. */
static bool has_sign(const char *op)
{
    return !strcmp(op, "sum") || !strcmp(op, "min") || !strcmp(op, "max");
}

bool kernel_find_reduce(tutti_dtype dtype, tutti_reduce_op op, struct kernel_id *ret_id)
{
    const struct row *row = find_row(dtype);
    const char *name = row ? op_name(row->kind, op) : NULL;

    if (!name)
        return false;
    ret_id->module = row->module;
    snprintf(ret_id->name, sizeof ret_id->name, "tutti_reduce_%s_%s",
             has_sign(name) ? row->name : row->shared, name);
    return true;
}

bool kernel_find_scale(tutti_dtype dtype, struct kernel_id *ret_id)
{
    const struct row *row = find_row(dtype);

    if (!row || !op_name(row->kind, TUTTI_PREMUL_SUM))
        return false;
    ret_id->module = row->module;
    snprintf(ret_id->name, sizeof ret_id->name, "tutti_scale_%s", row->shared);
    return true;
}

/* The largest unit that all places, steps and lengths are multiples of. */
static uint32_t unit_of(uint64_t bits)
{
    uint32_t unit = 16;

    while (bits & (unit - 1))
        unit /= 2;
    return unit;
}

void kernel_find_pack(const struct kernel_view *view, void *packed, uint64_t begin, uint64_t count,
                      bool unpack, struct kernel_pack *ret_pack, struct kernel_id *ret_id)
{
    const uint32_t size = view->element_bytes;
    uint32_t n = view->dimensions;
    /* The innermost dimension, where it is a run of bytes. */
    const bool is_run = n > 0 && view->stride[n - 1] == (int64_t)size;
    const uint64_t run = is_run ? (uint64_t)view->extent[n - 1] * size : size;
    uint64_t bits = (uintptr_t)packed | (uintptr_t)view->first | run | begin * size | count * size;

    n -= is_run;
    for (uint32_t d = 0; d < n; d++) {
        ret_pack->extent[d] = view->extent[d];
        ret_pack->stride[d] = view->stride[d];
        bits |= (uint64_t)view->stride[d];
    }
    const uint32_t unit = unit_of(bits);
    if (run != unit) {
        ret_pack->extent[n] = (int64_t)(run / unit);
        ret_pack->stride[n++] = unit;
    }
    ret_pack->packed = packed;
    ret_pack->strided = view->first;
    ret_pack->begin = begin * size / unit;
    ret_pack->count = count * size / unit;
    ret_pack->dimensions = n;
    ret_pack->reserved = 0;
    ret_id->module = KERNEL_MODULE_move;
    snprintf(ret_id->name, sizeof ret_id->name, "tutti_%s_%u", unpack ? "unpack" : "pack", unit);
}

uint32_t kernel_blocks(uint64_t bytes, uint32_t processors)
{
    const uint64_t needed = (bytes + KERNEL_THREADS * 16 - 1) / (KERNEL_THREADS * 16);
    const uint64_t most = (uint64_t)processors * 16;

    return (uint32_t)(needed < 1 ? 1 : needed > most ? most : needed);
}
