/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A framework's DLTensor is passed where tutti takes a tensor. The layout is compared with
 * Debian's dlpack.h (0.6); the compiler checks most of it.
 */
#include <criterion/criterion.h>
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <string.h>

#include <tutti/tensor.h>

#define SAME_MEMBER(ours, theirs)                                                                  \
    _Static_assert(offsetof(tutti_tensor, ours) == offsetof(DLTensor, theirs), #ours);             \
    _Static_assert(sizeof(((tutti_tensor *)0)->ours) == sizeof(((DLTensor *)0)->theirs), #ours)

_Static_assert(sizeof(tutti_tensor) == sizeof(DLTensor), "size");
_Static_assert(_Alignof(tutti_tensor) == _Alignof(DLTensor), "alignment");
SAME_MEMBER(data, data);
SAME_MEMBER(device, device);
SAME_MEMBER(device.type, device.device_type);
SAME_MEMBER(device.id, device.device_id);
SAME_MEMBER(ndim, ndim);
SAME_MEMBER(dtype, dtype);
SAME_MEMBER(shape, shape);
SAME_MEMBER(strides, strides);
SAME_MEMBER(byte_offset, byte_offset);

_Static_assert(TUTTI_DEVICE_CPU == (int)kDLCPU, "CPU");
_Static_assert(TUTTI_DEVICE_CUDA == (int)kDLCUDA, "CUDA");
_Static_assert(TUTTI_DEVICE_CUDA_HOST == (int)kDLCUDAHost, "CUDA host");

/* The codes that TUTTI_DTYPE_LIST writes as numbers. */
_Static_assert(kDLInt == 0 && kDLUInt == 1 && kDLFloat == 2 && kDLBfloat == 4 && kDLComplex == 5,
               "codes");

static tutti_dtype dtype_of(uint8_t code, uint8_t bits)
{
    const DLDataType theirs = {.code = code, .bits = bits, .lanes = 1};
    tutti_dtype ours;

    memcpy(&ours, &theirs, sizeof ours);
    return ours;
}

Test(dlpack, dtypes_are_the_same_bytes, .timeout = 5)
{
    /* Codes of later versions, in numbers: kDLBool, kDLFloat8_e4m3fn, kDLFloat8_e5m2. */
    cr_expect_eq(dtype_of(6, 8), (tutti_dtype)TUTTI_BOOL);
    cr_expect_eq(dtype_of(10, 8), (tutti_dtype)TUTTI_F8E4M3FN);
    cr_expect_eq(dtype_of(12, 8), (tutti_dtype)TUTTI_F8E5M2);
    cr_expect_eq(dtype_of(kDLUInt, 8), (tutti_dtype)TUTTI_U8);
    cr_expect_eq(dtype_of(kDLUInt, 64), (tutti_dtype)TUTTI_U64);
    cr_expect_eq(dtype_of(kDLInt, 8), (tutti_dtype)TUTTI_I8);
    cr_expect_eq(dtype_of(kDLInt, 32), (tutti_dtype)TUTTI_I32);
    cr_expect_eq(dtype_of(kDLInt, 64), (tutti_dtype)TUTTI_I64);
    cr_expect_eq(dtype_of(kDLFloat, 16), (tutti_dtype)TUTTI_F16);
    cr_expect_eq(dtype_of(kDLBfloat, 16), (tutti_dtype)TUTTI_BF16);
    cr_expect_eq(dtype_of(kDLFloat, 32), (tutti_dtype)TUTTI_F32);
    cr_expect_eq(dtype_of(kDLFloat, 64), (tutti_dtype)TUTTI_F64);
    cr_expect_eq(dtype_of(kDLComplex, 64), (tutti_dtype)TUTTI_C64);
    cr_expect_eq(dtype_of(kDLComplex, 128), (tutti_dtype)TUTTI_C128);
}

Test(dlpack, a_dltensor_is_measured_as_it_is, .timeout = 5)
{
    float memory[13];
    int64_t shape[] = {3, 4}, strides[] = {4, 1};
    DLTensor t = {.data = memory,
                  .device = {.device_type = kDLCPU},
                  .ndim = 2,
                  .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                  .shape = shape,
                  .strides = strides,
                  .byte_offset = sizeof(float)};
    uint64_t count, bytes;

    cr_assert_eq(tutti_tensor_measure((const tutti_tensor *)(const void *)&t, &count, &bytes),
                 TUTTI_OK);
    cr_expect_eq(count, 12);
    cr_expect_eq(bytes, sizeof(float) * 12);
}
