/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels. One source for GPUs, as CUDA, and for the host, as C: scripts/generate-ptx compiles it for each module
 * with MODULE naming it, and the tests and the stand-in of the driver compile all modules for the host.
 *
 * Each kernel has a loop over vectors of 16 bytes, which it takes where all pointers allow it, and one over elements
 * for the rest, in which a pointer may have any alignment: GPUs fault where an address is not a multiple of what is
 * loaded, so an element is put together from bytes there.
 */
#include "kernels.h"

#include <stddef.h>

#include "kernel_elements.h"

#if defined(__CUDA__)
#define KERNEL(name, arguments)                                                                    \
    extern "C" __attribute__((global, launch_bounds(KERNEL_THREADS))) void name(arguments k)
#define FIRST                                                                                      \
    ((uint64_t)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +                    \
     __nvvm_read_ptx_sreg_tid_x())
#define STEP ((uint64_t)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())
#define UNROLL _Pragma("unroll")
#define KEEP_ROLLED _Pragma("unroll 1")
#else
#define KERNEL(name, arguments)                                                                    \
    static void name(arguments k);                                                                 \
    static void name##_on_host(const void *at)                                                     \
    {                                                                                              \
        arguments k;                                                                               \
                                                                                                   \
        __builtin_memcpy(&k, at, sizeof k);                                                        \
        name(k);                                                                                   \
    }                                                                                              \
    static void name(arguments k)
#define FIRST UINT64_C(0)
#define STEP UINT64_C(1)
#define UNROLL
#define KEEP_ROLLED
#endif
#define ON_HOST(name) {#name, name##_on_host},

/* ---- memory ------------------------------------------------------------------------------------- */

typedef uint32_t vector16 __attribute__((vector_size(16), may_alias));
/* For floats of 8 bits, whose conversions are long code. */
typedef uint32_t vector4 __attribute__((may_alias));

DEVICE int are_aligned(const void *a, const void *b, const void *c, uint64_t step, uint64_t to)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | step) & (to - 1)) == 0;
}

#define VECTOR(type, vector)                                                                       \
    union type##_vector {                                                                          \
        vector whole;                                                                              \
        type##_bits element[sizeof(vector) / sizeof(type##_bits)];                                 \
    };                                                                                             \
    DEVICE union type##_vector type##_load_vector(const void *from, uint64_t index)                \
    {                                                                                              \
        union type##_vector v;                                                                     \
                                                                                                   \
        v.whole = ((const vector *)from)[index];                                                   \
        return v;                                                                                  \
    }

#define MEMORY(type)                                                                               \
    typedef type##_bits type##_anywhere __attribute__((aligned(1), may_alias));                    \
    typedef type##_bits type##_aligned __attribute__((may_alias));                                 \
    DEVICE type##_bits type##_load(const void *from, uint64_t index, int aligned)                  \
    {                                                                                              \
        return aligned ? ((const type##_aligned *)from)[index]                                     \
                       : ((const type##_anywhere *)from)[index];                                   \
    }                                                                                              \
    DEVICE void type##_store(void *to, uint64_t index, int aligned, type##_bits bits)              \
    {                                                                                              \
        if (aligned)                                                                               \
            ((type##_aligned *)to)[index] = bits;                                                  \
        else                                                                                       \
            ((type##_anywhere *)to)[index] = bits;                                                 \
    }

#define MEMORY_OF_PARTS(type, part)                                                                \
    DEVICE type##_bits type##_load(const void *from, uint64_t index, int aligned)                  \
    {                                                                                              \
        const type##_bits bits = {part##_load(from, 2 * index, aligned),                           \
                                  part##_load(from, 2 * index + 1, aligned)};                      \
                                                                                                   \
        return bits;                                                                               \
    }                                                                                              \
    DEVICE void type##_store(void *to, uint64_t index, int aligned, type##_bits bits)              \
    {                                                                                              \
        part##_store(to, 2 * index, aligned, bits.re);                                             \
        part##_store(to, 2 * index + 1, aligned, bits.im);                                         \
    }

VECTOR(bool, vector16)
VECTOR(u8, vector16)
VECTOR(u16, vector16)
VECTOR(u32, vector16)
VECTOR(u64, vector16)
VECTOR(i8, vector16)
VECTOR(i16, vector16)
VECTOR(i32, vector16)
VECTOR(i64, vector16)
VECTOR(f16, vector16)
VECTOR(bf16, vector16)
VECTOR(f32, vector16)
VECTOR(f64, vector16)
VECTOR(f8e4m3fn, vector4)
VECTOR(f8e5m2, vector4)
VECTOR(c64, vector16)
VECTOR(c128, vector16)

MEMORY(bool)
MEMORY(u8)
MEMORY(u16)
MEMORY(u32)
MEMORY(u64)
MEMORY(i8)
MEMORY(i16)
MEMORY(i32)
MEMORY(i64)
MEMORY(f16)
MEMORY(bf16)
MEMORY(f32)
MEMORY(f64)
MEMORY(f8e4m3fn)
MEMORY(f8e5m2)
MEMORY_OF_PARTS(c64, f32)
MEMORY_OF_PARTS(c128, f64)

typedef vector16 unit_bits;
MEMORY(unit)

#define LANES(type) (sizeof(union type##_vector) / sizeof(type##_bits))

/* ---- reductions --------------------------------------------------------------------------------- */

/* Subtrees that wait for their right neighbour: the tree over 2^16 operands has 17 levels. */
enum { TREE_DEPTH = 18 };

DEVICE const void *operand(const struct kernel_reduce *k, uint32_t number)
{
    return number ? (const char *)k->rest + (number - 1) * k->stride : k->first;
}

/*
 * The fixed order: a binary tree over the operands, split at the largest power of two below their number. It is walked
 * from the left like the carries of a binary counter, and what is left in the end is joined from the right.
 */
#define TREE(type, op)                                                                             \
    DEVICE type##_partial type##_##op##_tree(const struct kernel_reduce *k, uint64_t i,            \
                                             int aligned)                                          \
    {                                                                                              \
        type##_partial waiting[TREE_DEPTH];                                                        \
        uint32_t depth = 0;                                                                        \
                                                                                                   \
        for (uint32_t o = 0; o < k->operands; o++) {                                               \
            type##_partial right = type##_widen(type##_load(operand(k, o), i, aligned));           \
                                                                                                   \
            for (uint32_t leaves = o + 1; leaves % 2 == 0; leaves /= 2)                            \
                right = type##_##op(waiting[--depth], right);                                      \
            waiting[depth++] = right;                                                              \
        }                                                                                          \
        type##_partial result = waiting[--depth];                                                  \
        while (depth)                                                                              \
            result = type##_##op(waiting[--depth], result);                                        \
        return result;                                                                             \
    }

#define FOLD(type, op)                                                                             \
    DEVICE type##_partial type##_##op##_fold(const struct kernel_reduce *k, uint64_t i,            \
                                             int aligned)                                          \
    {                                                                                              \
        type##_partial result = type##_widen(type##_load(k->first, i, aligned));                   \
                                                                                                   \
        KEEP_ROLLED                                                                                \
        for (uint32_t o = 1; o < k->operands; o++)                                                 \
            result = type##_##op(result, type##_widen(type##_load(operand(k, o), i, aligned)));    \
        return result;                                                                             \
    }

/* Vector `i` of the result, not finished. SUFFIX: of the functions. */
#define FOLD_VECTOR(type, op, SUFFIX)                                                              \
    union type##_vector v = type##_load_vector(k->first, i);                                       \
    type##_partial result[LANES(type)];                                                            \
                                                                                                   \
    UNROLL                                                                                         \
    for (uint32_t e = 0; e < LANES(type); e++)                                                     \
        result[e] = type##_widen##SUFFIX(v.element[e]);                                            \
    KEEP_ROLLED                                                                                    \
    for (uint32_t o = 1; o < k->operands; o++) {                                                   \
        v = type##_load_vector(operand(k, o), i);                                                  \
        UNROLL                                                                                     \
        for (uint32_t e = 0; e < LANES(type); e++)                                                 \
            result[e] = type##_##op##SUFFIX(result[e], type##_widen##SUFFIX(v.element[e]));        \
    }

#define FOLD_VECTORS(type, op, FINISH)                                                             \
    DEVICE void type##_##op##_vectors(const struct kernel_reduce *k, uint64_t vectors)             \
    {                                                                                              \
        for (uint64_t i = FIRST; i < vectors; i += STEP) {                                         \
            FOLD_VECTOR(type, op, )                                                                \
            UNROLL                                                                                 \
            for (uint32_t e = 0; e < LANES(type); e++)                                             \
                v.element[e] = type##_narrow(FINISH(type, result[e], ));                           \
            ((union type##_vector *)k->dst)[i].whole = v.whole;                                    \
        }                                                                                          \
    }

/* As if all were numbers. A NaN among the operands, or made of them, is one in the result. Then it is made again, in
 * full; nothing has been written yet. */
#define FOLD_VECTORS_OF_NUMBERS(type, op, FINISH)                                                  \
    DEVICE void type##_##op##_vectors(const struct kernel_reduce *k, uint64_t vectors)             \
    {                                                                                              \
        for (uint64_t i = FIRST; i < vectors; i += STEP) {                                         \
            int numbers = 1;                                                                       \
            FOLD_VECTOR(type, op, _number)                                                         \
            UNROLL                                                                                 \
            for (uint32_t e = 0; e < LANES(type); e++) {                                           \
                numbers &= result[e] == result[e];                                                 \
                v.element[e] = type##_narrow_number(FINISH(type, result[e], _number));             \
            }                                                                                      \
            if (numbers) {                                                                         \
                ((union type##_vector *)k->dst)[i].whole = v.whole;                                \
                continue;                                                                          \
            }                                                                                      \
            KEEP_ROLLED                                                                            \
            for (uint64_t e = i * LANES(type); e < (i + 1) * LANES(type); e++)                     \
                ((type##_aligned *)k->dst)[e] =                                                    \
                    type##_narrow(FINISH(type, type##_##op##_fold(k, e, 1), ));                    \
        }                                                                                          \
    }

#define NOTHING(type, value, SUFFIX) (value)
#define DIVISION(type, value, SUFFIX)                                                              \
    (k->members ? type##_finish##SUFFIX(value, k->members) : (value))

#define REDUCE(type, op, FINISH, VECTORS)                                                          \
    TREE(type, op)                                                                                 \
    FOLD(type, op)                                                                                 \
    VECTORS(type, op, FINISH)                                                                      \
    DEVICE void type##_##op##_all(const struct kernel_reduce *k)                                   \
    {                                                                                              \
        const uint64_t step = k->operands > 2 ? k->stride : 0;                                     \
        const void *rest = k->operands > 1 ? k->rest : k->first;                                   \
        const int aligned = are_aligned(k->dst, k->first, rest, step, __alignof__(type##_bits));   \
        uint64_t done = 0;                                                                         \
                                                                                                   \
        if (!k->fixed_order &&                                                                     \
            are_aligned(k->dst, k->first, rest, step, sizeof(union type##_vector))) {              \
            done = k->count / LANES(type) * LANES(type);                                           \
            type##_##op##_vectors(k, k->count / LANES(type));                                      \
        }                                                                                          \
        for (uint64_t i = done + FIRST; i < k->count; i += STEP) {                                 \
            const type##_partial result = k->fixed_order ? type##_##op##_tree(k, i, aligned)       \
                                                         : type##_##op##_fold(k, i, aligned);      \
                                                                                                   \
            type##_store(k->dst, i, aligned, type##_narrow(FINISH(type, result, )));               \
        }                                                                                          \
    }                                                                                              \
    KERNEL(tutti_reduce_##type##_##op, struct kernel_reduce)                                       \
    {                                                                                              \
        type##_##op##_all(&k);                                                                     \
    }

/* ---- factors ------------------------------------------------------------------------------------ */

#define SCALE(type)                                                                                \
    KERNEL(tutti_scale_##type, struct kernel_scale)                                                \
    {                                                                                              \
        const void *from = k.factor ? k.factor : k.value;                                          \
        const type##_partial factor = type##_widen(type##_load(from, 0, 0));                       \
        const int aligned = are_aligned(k.dst, k.src, k.src, 0, __alignof__(type##_bits));         \
        uint64_t done = 0;                                                                         \
                                                                                                   \
        if (are_aligned(k.dst, k.src, k.src, 0, sizeof(union type##_vector))) {                    \
            done = k.count / LANES(type) * LANES(type);                                            \
            for (uint64_t i = FIRST; i < k.count / LANES(type); i += STEP) {                       \
                union type##_vector v = type##_load_vector(k.src, i);                              \
                                                                                                   \
                UNROLL                                                                             \
                for (uint32_t e = 0; e < LANES(type); e++)                                         \
                    v.element[e] =                                                                 \
                        type##_narrow(type##_product(type##_widen(v.element[e]), factor));         \
                ((union type##_vector *)k.dst)[i].whole = v.whole;                                 \
            }                                                                                      \
        }                                                                                          \
        for (uint64_t i = done + FIRST; i < k.count; i += STEP)                                    \
            type##_store(k.dst, i, aligned,                                                        \
                         type##_narrow(type##_product(                                             \
                             type##_widen(type##_load(k.src, i, aligned)), factor)));              \
    }

/* ---- strides ------------------------------------------------------------------------------------ */

/* Where unit `i` lies. Divisions of 64 bits take ten times as long, and few tensors have so many units. */
DEVICE int64_t offset_of(const struct kernel_pack *k, uint64_t i)
{
    int64_t offset = 0;
    uint32_t d = k->dimensions;

    for (; d > 0 && i > UINT32_MAX; d--) {
        const uint64_t extent = (uint64_t)k->extent[d - 1];

        offset += (int64_t)(i % extent) * k->stride[d - 1];
        i /= extent;
    }
    for (uint32_t small = (uint32_t)i; d > 0 && small; d--) {
        /* An extent of 2^32 or more is longer than the index. */
        const uint64_t extent = (uint64_t)k->extent[d - 1];
        const uint32_t by = extent > UINT32_MAX ? UINT32_MAX : (uint32_t)extent;
        const uint32_t rest = extent > UINT32_MAX ? 0 : small / by;

        offset += (int64_t)(small - rest * by) * k->stride[d - 1];
        small = rest;
    }
    return offset;
}

#define PACK(type, bytes)                                                                          \
    KERNEL(tutti_pack_##bytes, struct kernel_pack)                                                 \
    {                                                                                              \
        for (uint64_t i = FIRST; i < k.count; i += STEP)                                           \
            type##_store(k.packed, i, 1,                                                           \
                         type##_load((const char *)k.strided + offset_of(&k, k.begin + i), 0, 1)); \
    }                                                                                              \
    KERNEL(tutti_unpack_##bytes, struct kernel_pack)                                               \
    {                                                                                              \
        for (uint64_t i = FIRST; i < k.count; i += STEP)                                           \
            type##_store((char *)k.strided + offset_of(&k, k.begin + i), 0, 1,                     \
                         type##_load(k.packed, i, 1));                                             \
    }

/* ---- the modules -------------------------------------------------------------------------------- */

/* X(type, op, FINISH, VECTORS): the kernels of a module. */
#define EACH_INTEGER(X, u, i)                                                                      \
    X(u, sum, DIVISION, FOLD_VECTORS)                                                              \
    X(i, sum, DIVISION, FOLD_VECTORS)                                                              \
    X(u, product, NOTHING, FOLD_VECTORS)                                                           \
    X(u, min, NOTHING, FOLD_VECTORS)                                                               \
    X(u, max, NOTHING, FOLD_VECTORS)                                                               \
    X(i, min, NOTHING, FOLD_VECTORS)                                                               \
    X(i, max, NOTHING, FOLD_VECTORS)                                                               \
    X(u, band, NOTHING, FOLD_VECTORS)                                                              \
    X(u, bor, NOTHING, FOLD_VECTORS)                                                               \
    X(u, bxor, NOTHING, FOLD_VECTORS)
#define EACH_FLOAT(X, type)                                                                        \
    X(type, sum, DIVISION, FOLD_VECTORS_OF_NUMBERS)                                                \
    X(type, product, NOTHING, FOLD_VECTORS_OF_NUMBERS)                                             \
    X(type, min, NOTHING, FOLD_VECTORS_OF_NUMBERS)                                                 \
    X(type, max, NOTHING, FOLD_VECTORS_OF_NUMBERS)
#define EACH_COMPLEX(X, type)                                                                      \
    X(type, sum, DIVISION, FOLD_VECTORS) X(type, product, NOTHING, FOLD_VECTORS)

#define EACH_REDUCE_bool(X)                                                                        \
    X(bool, sum, DIVISION, FOLD_VECTORS)                                                           \
    X(bool, product, DIVISION, FOLD_VECTORS)                                                       \
    X(bool, bxor, DIVISION, FOLD_VECTORS)
#define EACH_REDUCE_u8(X) EACH_INTEGER(X, u8, i8)
#define EACH_REDUCE_u16(X) EACH_INTEGER(X, u16, i16)
#define EACH_REDUCE_u32(X) EACH_INTEGER(X, u32, i32)
#define EACH_REDUCE_u64(X) EACH_INTEGER(X, u64, i64)
#define EACH_REDUCE_f16(X) EACH_FLOAT(X, f16)
#define EACH_REDUCE_bf16(X) EACH_FLOAT(X, bf16)
#define EACH_REDUCE_f32(X) EACH_FLOAT(X, f32)
#define EACH_REDUCE_f64(X) EACH_FLOAT(X, f64)
#define EACH_REDUCE_f8e4m3fn(X) EACH_FLOAT(X, f8e4m3fn)
#define EACH_REDUCE_f8e5m2(X) EACH_FLOAT(X, f8e5m2)
#define EACH_REDUCE_c64(X) EACH_COMPLEX(X, c64)
#define EACH_REDUCE_c128(X) EACH_COMPLEX(X, c128)
#define EACH_SCALE(X)                                                                              \
    X(u8) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64) X(f8e4m3fn) X(f8e5m2) X(c64) X(c128)
#define EACH_PACK(X) X(u8, 1) X(u16, 2) X(u32, 4) X(u64, 8) X(unit, 16)

#define ALL_KERNELS(type) EACH_REDUCE_##type(REDUCE) SCALE(type)

/* clang-format off */
#if defined(MODULE_move) || !defined(__CUDA__)
EACH_PACK(PACK)
#endif
#if defined(MODULE_bool) || !defined(__CUDA__)
EACH_REDUCE_bool(REDUCE)
#endif
#if defined(MODULE_u8) || !defined(__CUDA__)
ALL_KERNELS(u8)
#endif
#if defined(MODULE_u16) || !defined(__CUDA__)
ALL_KERNELS(u16)
#endif
#if defined(MODULE_u32) || !defined(__CUDA__)
ALL_KERNELS(u32)
#endif
#if defined(MODULE_u64) || !defined(__CUDA__)
ALL_KERNELS(u64)
#endif
#if defined(MODULE_f16) || !defined(__CUDA__)
ALL_KERNELS(f16)
#endif
#if defined(MODULE_bf16) || !defined(__CUDA__)
ALL_KERNELS(bf16)
#endif
#if defined(MODULE_f32) || !defined(__CUDA__)
ALL_KERNELS(f32)
#endif
#if defined(MODULE_f64) || !defined(__CUDA__)
ALL_KERNELS(f64)
#endif
#if defined(MODULE_f8e4m3fn) || !defined(__CUDA__)
ALL_KERNELS(f8e4m3fn)
#endif
#if defined(MODULE_f8e5m2) || !defined(__CUDA__)
ALL_KERNELS(f8e5m2)
#endif
#if defined(MODULE_c64) || !defined(__CUDA__)
ALL_KERNELS(c64)
#endif
#if defined(MODULE_c128) || !defined(__CUDA__)
ALL_KERNELS(c128)
#endif
#if !defined(__CUDA__)
#define REDUCE_ON_HOST(type, op, FINISH, VECTORS) ON_HOST(tutti_reduce_##type##_##op)
#define SCALE_ON_HOST(type) ON_HOST(tutti_scale_##type)
#define PACK_ON_HOST(type, bytes) ON_HOST(tutti_pack_##bytes) ON_HOST(tutti_unpack_##bytes)
#define ALL_ON_HOST(type) EACH_REDUCE_##type(REDUCE_ON_HOST)

const struct host_kernel host_kernels[] = {
    EACH_PACK(PACK_ON_HOST)
    EACH_SCALE(SCALE_ON_HOST)
    EACH_SCALE(ALL_ON_HOST)
    ALL_ON_HOST(bool)
    {NULL, NULL},
};
#endif
/* clang-format on */
