/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations. Every member of the group calls the same operation in the same order.
 * Order: collectives of one group start, match and are reported in the order of their calls.
 * Deadlines count from the call for blocking calls, and for queued ones from the moment that they
 * are the oldest unfinished of their group.
 */
#ifndef TUTTI_COLLECTIVE_H
#define TUTTI_COLLECTIVE_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/tensor.h>
#include <tutti/work.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_options {
    uint32_t struct_size;
    uint32_t flags;     /* 0 */
    int64_t timeout_ms; /* 0: the group's default; negative is refused */
    void *stream;       /* of the tensor's device; NULL for CPU tensors */
} tutti_options;

#define TUTTI_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(tutti_options), 0, 0, 0                                                             \
    }

/**
 * Reduces `tensor` over all members of `group`, in place; every member gets the result.
 *
 * tensor   any shape, the same number of elements and dtype on every member; C-contiguous.
 *          Must not be touched until the operation is complete.
 * op       applied element by element. Sums of 16-bit floats accumulate in 32 bits within one
 *          reduction step and are rounded once per step. AVG of integers truncates toward zero.
 *          MIN and MAX give NaN when any member has NaN.
 * options  NULL for defaults; `timeout_ms` overrides the group's.
 * work     NULL: returns when this member's result is ready. Otherwise receives a handle that the
 *          caller frees with tutti_work_free().
 *
 * Returns TUTTI_OK; INVALID_ARGUMENT, UNSUPPORTED, MISMATCH (members disagree about the call;
 * every member still in the call gets it, the others from their next call), TIMEOUT, PEER_LOST,
 * ABORTED. tutti_last_error() names the member and the cause. After an error the tensor's contents
 * are undefined and the memory is the caller's again.
 *
 * Semantics: torch.distributed.all_reduce; MPI_Allreduce with MPI_IN_PLACE.
 */
TUTTI_API tutti_status tutti_all_reduce(tutti_group *group, const tutti_tensor *tensor,
                                        tutti_reduce_op op, const tutti_options *options,
                                        tutti_work **work);

/** As tutti_all_reduce(), from `in` to `out`: same dtype and element count; the same memory or
 * memory that does not overlap. `in` is not written. Semantics: MPI_Allreduce. */
TUTTI_API tutti_status tutti_all_reduce_into(tutti_group *group, const tutti_tensor *in,
                                             const tutti_tensor *out, tutti_reduce_op op,
                                             const tutti_options *options, tutti_work **work);

/** Copies `tensor` of rank `root` to every member. Same element count and dtype on every member;
 * C-contiguous. Arguments and errors as for tutti_all_reduce().
 * The root may return before the others have received. Semantics: torch.distributed.broadcast;
 * MPI_Bcast. */
TUTTI_API tutti_status tutti_broadcast(tutti_group *group, const tutti_tensor *tensor, int32_t root,
                                       const tutti_options *options, tutti_work **work);

/** Returns (or completes) on no member before every member has called it. Semantics:
 * torch.distributed.barrier; MPI_Barrier. */
TUTTI_API tutti_status tutti_barrier(tutti_group *group, const tutti_options *options,
                                     tutti_work **work);

#ifdef __cplusplus
}
#endif
#endif
