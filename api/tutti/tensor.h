/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors: descriptors of the caller's memory, laid out exactly like DLPack's DLTensor. A framework's
 * tensor is passed unchanged (the tests compare the layout with dlpack.h). tutti never owns the memory
 * of a descriptor.
 *
 * Operations take any layout: any rank (0: one element), extents of 0, byte offsets of any
 * alignment, strides of any sign. Element k is the k-th in row-major order of the shape. It corresponds
 * to element k of the other members, whose shapes and strides may differ. A tensor that is not
 * C-contiguous is copied to row-major memory and back, which costs the copies and an allocation of its
 * size (TUTTI_ERR_NO_MEMORY). A tensor that an operation writes must not have two elements in one
 * place. Strides of 0, and strides by which elements may overlap, are TUTTI_ERR_UNSUPPORTED there; they
 * are valid for a tensor that is only read.
 */
#ifndef TUTTI_TENSOR_H
#define TUTTI_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack's device types. Memory of a device needs the plugin that drives it: libtutti-cuda.so for CUDA. */
enum {
    TUTTI_DEVICE_CPU = 1,
    TUTTI_DEVICE_CUDA = 2,
    TUTTI_DEVICE_CUDA_HOST = 3,    /* pinned host memory */
    TUTTI_DEVICE_CUDA_MANAGED = 13 /* memory that moves between the host and the devices */
};

/*
 * Or'ed to a device's type: the memory must not be written. This flag is tutti's own, not DLPack's. A
 * tensor that has it is accepted as an input and refused as an output. Imports of read-only tensors
 * set it (dlpack.h). Set it yourself to pass constant data.
 */
enum { TUTTI_DEVICE_READ_ONLY = 1 << 30 };

/** A device; layout-identical to DLDevice. */
typedef struct tutti_device {
    int32_t type; /* TUTTI_DEVICE_… */
    int32_t id;   /* which one of its type; 0 for CPU */
} tutti_device;

/*
 * A dtype is a uint32_t whose bytes are DLPack's {code, bits, lanes}: code | bits << 8 | lanes << 16.
 * Codes: 0 int, 1 uint, 2 float, 3 opaque, 4 bfloat, 5 complex (dlpack.h 0.6); 6 bool, in 8 bits (dlpack.h
 * 0.8); 10 float8_e4m3fn, 12 float8_e5m2 (dlpack.h 1.1). The bits of a complex number are those of
 * both its parts.
 */
typedef uint32_t tutti_dtype;

/** The dtype of one lane with this code and width. */
#define TUTTI_DTYPE(code, bits) ((uint32_t)(code) | (uint32_t)(bits) << 8 | UINT32_C(1) << 16)

/* X(NAME, "name", code, bits): the dtypes that operations take. */
#define TUTTI_DTYPE_LIST(X)                                                                        \
    X(BOOL, "bool", 6, 8)                                                                          \
    X(U8, "u8", 1, 8)                                                                              \
    X(U16, "u16", 1, 16)                                                                           \
    X(U32, "u32", 1, 32)                                                                           \
    X(U64, "u64", 1, 64)                                                                           \
    X(I8, "i8", 0, 8)                                                                              \
    X(I16, "i16", 0, 16)                                                                           \
    X(I32, "i32", 0, 32)                                                                           \
    X(I64, "i64", 0, 64)                                                                           \
    X(F16, "f16", 2, 16)                                                                           \
    X(BF16, "bf16", 4, 16)                                                                         \
    X(F32, "f32", 2, 32)                                                                           \
    X(F64, "f64", 2, 64)                                                                           \
    X(F8E4M3FN, "f8e4m3fn", 10, 8)                                                                 \
    X(F8E5M2, "f8e5m2", 12, 8)                                                                     \
    X(C64, "c64", 5, 64)                                                                           \
    X(C128, "c128", 5, 128)

/*
 * X(NAME, "name", code, bits): elements that are only moved, for dtypes that are not in the list above and for
 * structs: DLPack's opaque handle. Built-in reductions refuse them, those of tutti_reduce_op_create() take
 * them. Every backend moves them.
 */
#define TUTTI_MOVED_DTYPE_LIST(X)                                                                  \
    X(BITS8, "bits8", 3, 8)                                                                        \
    X(BITS16, "bits16", 3, 16)                                                                     \
    X(BITS32, "bits32", 3, 32)                                                                     \
    X(BITS64, "bits64", 3, 64)                                                                     \
    X(BITS128, "bits128", 3, 128)

enum {
#define TUTTI_DTYPE_ENUM(NAME, name, code, bits) TUTTI_##NAME = (code) | (bits) << 8 | 1 << 16,
    TUTTI_DTYPE_LIST(TUTTI_DTYPE_ENUM) TUTTI_MOVED_DTYPE_LIST(TUTTI_DTYPE_ENUM)
#undef TUTTI_DTYPE_ENUM
};

/* The most dimensions of a tensor that operations take; more than any framework has. */
enum { TUTTI_NDIM_MAX = 1024 };

/* If the compiler allows it, the type may alias DLTensor, so that pointers may be cast. */
#if defined(__GNUC__) || defined(__clang__)
#define TUTTI_MAY_ALIAS __attribute__((may_alias))
#else
#define TUTTI_MAY_ALIAS
#endif

/** Layout-identical to DLTensor: a pointer to one may be cast and passed. */
typedef struct TUTTI_MAY_ALIAS tutti_tensor {
    void *data;             /* of the caller; NULL where there are no elements */
    tutti_device device;    /* where the memory is */
    int32_t ndim;           /* 0: a scalar of one element; TUTTI_NDIM_MAX at most */
    tutti_dtype dtype;      /* DLDataType, seen as one number */
    const int64_t *shape;   /* ndim entries; may be NULL when ndim is 0 */
    const int64_t *strides; /* in elements; NULL: C-contiguous */
    uint64_t byte_offset;   /* of the first element from `data` */
} tutti_tensor;

/**
 * A C-contiguous 1-d tensor over `count` elements at `data`. `shape` is the caller's storage for
 * the one extent; it must live as long as the tensor.
 */
static inline tutti_tensor tutti_tensor_1d(void *data, tutti_dtype dtype, int64_t *shape,
                                           int64_t count)
{
    tutti_tensor t;

    *shape = count;
    t.data = data;
    t.device.type = TUTTI_DEVICE_CPU;
    t.device.id = 0;
    t.ndim = 1;
    t.dtype = dtype;
    t.shape = shape;
    t.strides = NULL;
    t.byte_offset = 0;
    return t;
}

/** Bytes of one element; 0 for a dtype that no operation takes. */
TUTTI_API size_t tutti_dtype_size(tutti_dtype dtype);

/** "f32", "bf16", …; "?" for an unknown dtype. Static. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype dtype);

/** The dtype called `name` ("f32"), or 0. */
TUTTI_API tutti_dtype tutti_dtype_parse(const char *name);

/**
 * Returns the number of elements of a tensor, and their bytes without the gaps of strides. Checks the
 * descriptor: negative extents, products that overflow, a NULL pointer in a non-empty tensor, strides
 * that leave the address space, and dtypes that no operation takes are TUTTI_ERR_INVALID_ARGUMENT or
 * TUTTI_ERR_UNSUPPORTED, with a message. Either output may be NULL.
 */
TUTTI_API tutti_status tutti_tensor_measure(const tutti_tensor *tensor, uint64_t *ret_count,
                                            uint64_t *ret_bytes);

/*
 * Reduce operations: built in 0..63; numbers from 64 up are for operations made at run time, see
 * <tutti/reduce.h>. PREMUL_SUM is the kind of some of those: no call takes this number itself.
 */
typedef int32_t tutti_reduce_op;

/* X(NAME, "name", number) */
#define TUTTI_REDUCE_OP_LIST(X)                                                                    \
    X(SUM, "sum", 0)                                                                               \
    X(AVG, "avg", 1)                                                                               \
    X(PRODUCT, "product", 2)                                                                       \
    X(MIN, "min", 3)                                                                               \
    X(MAX, "max", 4)                                                                               \
    X(BAND, "band", 5)                                                                             \
    X(BOR, "bor", 6)                                                                               \
    X(BXOR, "bxor", 7)                                                                             \
    X(PREMUL_SUM, "premul_sum", 8)

enum {
#define TUTTI_REDUCE_OP_ENUM(NAME, name, number) TUTTI_##NAME = number,
    TUTTI_REDUCE_OP_LIST(TUTTI_REDUCE_OP_ENUM)
#undef TUTTI_REDUCE_OP_ENUM
};

/** "sum", …; "user op" from 64 up; "?" for an unknown number. Static. */
TUTTI_API const char *tutti_reduce_op_name(tutti_reduce_op op);

/**
 * What a built-in `op` does with elements of `dtype`, in a few words ("sum, wraps"); NULL: it does
 * not take them. Static. docs/guide.md has the whole table, and what the words mean.
 */
TUTTI_API const char *tutti_reduce_op_meaning(tutti_reduce_op op, tutti_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
