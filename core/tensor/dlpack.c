/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports managed tensors of DLPack, both forms. The header of DLPack is not included: programs bring a
 * version of their own, and the part of its layout that is read here is fixed.
 *
 * Ownership passes only on success. The imported tensor keeps the managed one, refers to its shape and
 * strides, and calls its deleter once, when it is released. Nothing is copied.
 */
#include <tutti/dlpack.h>

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "tensor/layout.h"

/* Of dlpack.h 1.1, with DLTensor as the tutti_tensor that it equals. Until `flags` the layout is
 * promised for every version. */
struct DLManagedTensor {
    tutti_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    tutti_tensor tensor;
};

enum { MAJOR_VERSION = 1, FLAG_READ_ONLY = 1 };

struct imported {
    tutti_tensor tensor; /* first: what the caller holds; shape and strides are the owner's */
    struct DLManagedTensor *managed;
    struct DLManagedTensorVersioned *versioned;
};

static tutti_status import(const struct imported *from, tutti_tensor **ret_tensor)
{
    struct tensor_size size;
    tutti_status status = tensor_measure(&from->tensor, &size);

    if (status)
        return status;
    struct imported *imported = malloc(sizeof *imported);
    if (!imported)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to import a tensor");
    *imported = *from;
    *ret_tensor = &imported->tensor;
    return TUTTI_OK;
}

tutti_status tutti_tensor_from_dlpack(struct DLManagedTensor *managed, tutti_tensor **ret_tensor)
{
    if (!managed || !ret_tensor)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL",
                         managed ? "ret_tensor" : "the managed tensor");
    return error_named(
        import(&(struct imported){.tensor = managed->tensor, .managed = managed}, ret_tensor));
}

tutti_status tutti_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                                tutti_tensor **ret_tensor)
{
    if (!managed || !ret_tensor)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL",
                         managed ? "ret_tensor" : "the managed tensor");
    if (managed->major != MAJOR_VERSION)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "the managed tensor is of DLPack %" PRIu32 ".%" PRIu32
                         "; this library reads %d.x: ask its owner for that (max_version)",
                         managed->major, managed->minor, MAJOR_VERSION);
    struct imported from = {.tensor = managed->tensor, .versioned = managed};
    if (managed->flags & FLAG_READ_ONLY)
        from.tensor.device.type |= TUTTI_DEVICE_READ_ONLY;
    return error_named(import(&from, ret_tensor));
}

void tutti_tensor_release(tutti_tensor *tensor)
{
    struct imported *imported = (struct imported *)tensor;

    if (!imported)
        return;
    if (imported->managed && imported->managed->deleter)
        imported->managed->deleter(imported->managed);
    if (imported->versioned && imported->versioned->deleter)
        imported->versioned->deleter(imported->versioned);
    free(imported);
}
