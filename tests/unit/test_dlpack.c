/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A framework's DLTensor is passed where tutti takes a tensor, and managed tensors are imported. The
 * layout is compared with Debian's dlpack.h (0.6), which the compiler does for the most part; what
 * came with dlpack.h 1.0 is spelled out here.
 */
#include <criterion/criterion.h>
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <string.h>

#include <tutti/dlpack.h>
#include <tutti/status.h>
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
_Static_assert(TUTTI_DEVICE_CUDA_MANAGED == (int)kDLCUDAManaged, "CUDA managed");

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

/* As dlpack.h 1.1 has it. */
typedef struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

enum { READ_ONLY = 1, IS_COPIED = 2, FLAG_OF_TOMORROW = 1 << 20 };

static float owned[6];
static int64_t owned_shape[] = {2, 3};

static const DLTensor owned_tensor = {.data = owned,
                                      .device = {.device_type = kDLCPU, .device_id = 0},
                                      .ndim = 2,
                                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                                      .shape = owned_shape};

/* Both count in their context how often they were called. */
static void delete_plain(DLManagedTensor *self)
{
    ++*(int *)self->manager_ctx;
}

static void delete_versioned(DLManagedTensorVersioned *self)
{
    ++*(int *)self->manager_ctx;
}

Test(dlpack, a_managed_tensor_is_imported_and_deleted_once, .timeout = 5)
{
    int deleted = 0;
    DLManagedTensor managed = {owned_tensor, &deleted, delete_plain};
    tutti_tensor *tensor = NULL;
    uint64_t count;

    cr_assert_eq(tutti_tensor_from_dlpack(&managed, &tensor), TUTTI_OK);
    cr_expect_eq(tensor->data, owned);
    cr_expect_eq(tensor->device.type, TUTTI_DEVICE_CPU);
    cr_assert_eq(tutti_tensor_measure(tensor, &count, NULL), TUTTI_OK);
    cr_expect_eq(count, 6);
    cr_expect_eq(deleted, 0);
    tutti_tensor_release(tensor);
    cr_expect_eq(deleted, 1);

    managed.deleter = NULL; /* an owner that wants no word */
    cr_assert_eq(tutti_tensor_from_dlpack(&managed, &tensor), TUTTI_OK);
    tutti_tensor_release(tensor);
    tutti_tensor_release(NULL);
    cr_expect_eq(deleted, 1);
}

Test(dlpack, a_versioned_one_brings_whether_it_may_be_written, .timeout = 5)
{
    static const struct {
        uint32_t minor;
        uint64_t flags;
        int32_t type;
    } cases[] = {
        {0, 0, TUTTI_DEVICE_CPU},
        {1, IS_COPIED, TUTTI_DEVICE_CPU},
        {0, READ_ONLY, TUTTI_DEVICE_CPU | TUTTI_DEVICE_READ_ONLY},
        {99, READ_ONLY | FLAG_OF_TOMORROW, TUTTI_DEVICE_CPU | TUTTI_DEVICE_READ_ONLY},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int deleted = 0;
        DLManagedTensorVersioned managed = {
            {1, cases[i].minor}, &deleted, delete_versioned, cases[i].flags, owned_tensor};
        tutti_tensor *tensor = NULL;

        cr_assert_eq(tutti_tensor_from_dlpack_versioned(&managed, &tensor), TUTTI_OK, "%zu", i);
        cr_expect_eq(tensor->data, owned, "%zu", i);
        cr_expect_eq(tensor->device.type, cases[i].type, "%zu", i);
        cr_expect_eq(deleted, 0, "%zu", i);
        tutti_tensor_release(tensor);
        cr_expect_eq(deleted, 1, "%zu", i);
    }
}

Test(dlpack, what_is_not_imported_stays_its_owners, .timeout = 5)
{
    int deleted = 0;
    DLManagedTensor plain = {owned_tensor, &deleted, delete_plain};
    DLManagedTensorVersioned versioned = {{2, 0}, &deleted, delete_versioned, 0, owned_tensor};
    tutti_tensor untouched, *tensor = &untouched;

    cr_expect_eq(tutti_tensor_from_dlpack_versioned(&versioned, &tensor), TUTTI_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(tutti_last_error(), "of DLPack 2.0; this library reads 1.x"));
    versioned.version.major = 1;
    versioned.dl_tensor.dtype.lanes = 4;
    cr_expect_eq(tutti_tensor_from_dlpack_versioned(&versioned, &tensor), TUTTI_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(tutti_last_error(), "lanes 4"));
    plain.dl_tensor.data = NULL;
    cr_expect_eq(tutti_tensor_from_dlpack(&plain, &tensor), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tutti_tensor_from_dlpack(NULL, &tensor), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tutti_tensor_from_dlpack(&plain, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tensor, &untouched, "an output was written on failure");
    cr_expect_eq(deleted, 0);
}
