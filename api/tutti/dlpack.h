/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import of DLPack's managed tensors: what `__dlpack__()` of NumPy, PyTorch, JAX and others gives.
 * A plain DLTensor needs no import; it is passed as a tutti_tensor.
 *
 * The two structs are DLPack's own and only declared here, so this header works with any dlpack.h.
 * tutti reads their layout as of dlpack.h 1.1: DLManagedTensor {dl_tensor, manager_ctx, deleter},
 * unchanged since 0.2, and DLManagedTensorVersioned {version {major, minor}, manager_ctx, deleter,
 * flags, dl_tensor}, which any 1.x keeps.
 *
 * Ownership. A successful import moves the managed tensor to tutti, which calls its deleter exactly
 * once: in tutti_tensor_release(), on the thread that calls it. In Python, rename the capsule after
 * the import ("used_dltensor", "used_dltensor_versioned"), as its protocol requires. After a failed
 * import the managed tensor is still the caller's, and its deleter has not been called.
 */
#ifndef TUTTI_DLPACK_H
#define TUTTI_DLPACK_H

#include <tutti/export.h>
#include <tutti/status.h>
#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/**
 * Imports an unversioned managed tensor ("dltensor"). Every call that takes a tensor takes the result,
 * and copies of its descriptor, until it is released. Release it after the last operation that uses it
 * has completed.
 *
 * Errors: INVALID_ARGUMENT or UNSUPPORTED for what tutti_tensor_measure() refuses; NO_MEMORY.
 */
TUTTI_API tutti_status tutti_tensor_from_dlpack(struct DLManagedTensor *managed,
                                                tutti_tensor **ret_tensor);

/**
 * As tutti_tensor_from_dlpack(), from a versioned one ("dltensor_versioned"). A tensor that its owner
 * flags as read-only carries TUTTI_DEVICE_READ_ONLY in its device's type, so that operations that
 * would write it refuse it. Flags that this release does not know are ignored, as DLPack asks.
 *
 * Errors also: UNSUPPORTED for a major version other than 1.
 */
TUTTI_API tutti_status tutti_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                                          tutti_tensor **ret_tensor);

/** Releases an imported tensor: calls its deleter, if it has one. NULL is allowed. Only for tensors
 * from the two functions above, once each. */
TUTTI_API void tutti_tensor_release(tutti_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
