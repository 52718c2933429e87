/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations. Every member of the group calls the same operations in the same order.
 * Collectives of one group start, match and complete in the order of their calls.
 * The deadline of a blocking call counts from the call. That of a queued call counts from the moment
 * when it becomes the oldest unfinished collective of its group.
 */
#ifndef TUTTI_COLLECTIVE_H
#define TUTTI_COLLECTIVE_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/reduce.h>
#include <tutti/status.h>
#include <tutti/tensor.h>
#include <tutti/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reduces in a fixed order: a binary tree over the ranks, split at the largest power of two below
 * their number, with lower ranks on the left. The bits of the result then depend on the operands and
 * the number of ranks alone, not on sizes, hosts, backends or algorithms. Floats of 8 and 16 bits are
 * rounded once, at the end. All members must set it; TUTTI_REPRODUCIBLE=1 sets it for every call.
 * Operations that do not reduce ignore it.
 */
#define TUTTI_FIXED_ORDER UINT32_C(1)

/*
 * For a caller that starts a call with a work and waits for it at once, but must be able to stop
 * waiting, as an interpreter does that looks at signals. A short collective waits for the other
 * members first, for some microseconds, as a blocking call does; if it is complete then, `*work` is
 * NULL. Until the caller waits, no thread of tutti moves the operation. Over an engine that orders the
 * operation on options.stream, the work is complete once it is there, as a blocking call is. Calls without
 * a work and those in a batch ignore it. Members need not agree.
 */
#define TUTTI_WAITS_NEXT UINT32_C(2)

/** Options of one call; NULL and zero members mean the default. Members are only appended. */
typedef struct tutti_options {
    uint32_t struct_size;
    uint32_t flags;     /* TUTTI_FIXED_ORDER, TUTTI_WAITS_NEXT */
    int64_t timeout_ms; /* 0: the group's default; negative is refused */
    void *stream;       /* of the tensor's device; NULL for CPU tensors */
} tutti_options;

/** Every option at its default. */
#define TUTTI_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(tutti_options), 0, 0, 0                                                             \
    }

/**
 * Reduces `tensor` over all members of `group`, in place; every member gets the result.
 *
 * tensor   any shape and strides, the same number of elements and dtype on every member. Element k
 *          in row-major order corresponds to the others' element k (tensor.h). The descriptor is
 *          read during the call only; do not touch the memory until the operation is complete.
 * op       applied element by element. Sums of 8- and 16-bit floats accumulate in 32 bits within
 *          one reduction step and are rounded once per step; 8-bit floats saturate. AVG of f16 and
 *          of 8-bit floats sums and divides in 32 bits and rounds once, so a mean never lies outside
 *          its operands. AVG of bf16 does the same if one step has all operands (inside one host, and
 *          in the fixed order); otherwise its sum is rounded per step. Sums of f32 and wider may
 *          overflow before AVG divides them. AVG of integers truncates toward zero. MIN and MAX
 *          give NaN if any member has NaN.
 * options  NULL for defaults; `timeout_ms` overrides the group's.
 * work     NULL: returns when this member's result is ready. Otherwise receives a handle that the
 *          caller frees with tutti_work_free().
 *
 * Returns TUTTI_OK; INVALID_ARGUMENT, UNSUPPORTED, MISMATCH (members called different things: every
 * member still in the call gets this error, the others from their next call or when they leave),
 * TIMEOUT, PEER_LOST, ABORTED. tutti_last_error() names the members and the cause. After an error
 * the tensor's contents are undefined, and the memory is the caller's again.
 *
 * Semantics: torch.distributed.all_reduce; MPI_Allreduce with MPI_IN_PLACE.
 */
TUTTI_API tutti_status tutti_all_reduce(tutti_group *group, const tutti_tensor *tensor,
                                        tutti_reduce_op op, const tutti_options *options,
                                        tutti_work **work);

/** As tutti_all_reduce(), from `in` to `out`. Both have the same dtype and element count, and are the
 * same memory or do not overlap. `in` is not written. Semantics: MPI_Allreduce. */
TUTTI_API tutti_status tutti_all_reduce_into(tutti_group *group, const tutti_tensor *in,
                                             const tutti_tensor *out, tutti_reduce_op op,
                                             const tutti_options *options, tutti_work **work);

/**
 * Reduces `tensor` over all members to rank `root`, in place there. The other members' tensors are
 * not written. Arguments and errors are those of tutti_all_reduce(). A member other than the root may
 * return before the root has read its tensor. Semantics: torch.distributed.reduce (which leaves the
 * others' tensors undefined); MPI_Reduce.
 */
TUTTI_API tutti_status tutti_reduce(tutti_group *group, const tutti_tensor *tensor,
                                    tutti_reduce_op op, int32_t root, const tutti_options *options,
                                    tutti_work **work);

/** As tutti_reduce(), from `in` to `out`, which only the root needs (elsewhere NULL or ignored).
 * Semantics: MPI_Reduce. */
TUTTI_API tutti_status tutti_reduce_into(tutti_group *group, const tutti_tensor *in,
                                         const tutti_tensor *out, tutti_reduce_op op, int32_t root,
                                         const tutti_options *options, tutti_work **work);

/** Copies `tensor` of rank `root` to every member. The element count and dtype are the same on every
 * member; strides may differ. Arguments and errors are those of tutti_all_reduce(). The root may
 * return before the others have received. Semantics: torch.distributed.broadcast; MPI_Bcast. */
TUTTI_API tutti_status tutti_broadcast(tutti_group *group, const tutti_tensor *tensor, int32_t root,
                                       const tutti_options *options, tutti_work **work);

/*
 * Operations with a block for every member. n is the group's size; block i belongs to rank i.
 *
 * Each operation has three forms. The plain form takes one tensor of n blocks of the same size, one
 * after the other, in any shape. `_list` takes n tensors anywhere in memory. `_v` takes one tensor
 * with n counts and n offsets in elements (offsets NULL: one block after the other); elements between
 * the blocks are neither read nor written. Lists and arrays are read during the call only; do not
 * touch the memory of the tensors until the operation is complete. All blocks have the same dtype on
 * every member. Output blocks that overlap are INVALID_ARGUMENT (not checked for strided tensors in a
 * list).
 *
 * All members use the same form, with two exceptions. The plain form and a list of equal tensors may
 * meet, but not in all_to_all. In all_to_all, the list and `_v` may meet: there no member knows whether
 * all blocks have one size. Sizes that do not match are TUTTI_ERR_MISMATCH.
 * In place: if a vector is exactly the member's own block of the other side, it is not copied.
 * Other arguments and errors are those of tutti_all_reduce().
 */

/** Every member gets the blocks of all members. `in` is this member's block, with as many elements as
 * its block of `out`. Semantics: torch.distributed.all_gather_into_tensor; MPI_Allgather. */
TUTTI_API tutti_status tutti_all_gather(tutti_group *group, const tutti_tensor *in,
                                        const tutti_tensor *out, const tutti_options *options,
                                        tutti_work **work);
/** The tensors of `outs` may differ in size, in the same way on every member. Semantics:
 * torch.distributed.all_gather. */
TUTTI_API tutti_status tutti_all_gather_list(tutti_group *group, const tutti_tensor *in,
                                             const tutti_tensor *const *outs,
                                             const tutti_options *options, tutti_work **work);
/** The same counts on every member (offsets may differ). Semantics: MPI_Allgatherv. */
TUTTI_API tutti_status tutti_all_gather_v(tutti_group *group, const tutti_tensor *in,
                                          const tutti_tensor *out, const int64_t *counts,
                                          const int64_t *offsets, const tutti_options *options,
                                          tutti_work **work);

/** Rank `root` gets the blocks of all members. `out`, `outs`, `counts` and `offsets` are read on the
 * root only. The others may return before the root has read. Semantics: MPI_Gather. */
TUTTI_API tutti_status tutti_gather(tutti_group *group, const tutti_tensor *in,
                                    const tutti_tensor *out, int32_t root,
                                    const tutti_options *options, tutti_work **work);
/** All tensors have one size. Semantics: torch.distributed.gather. */
TUTTI_API tutti_status tutti_gather_list(tutti_group *group, const tutti_tensor *in,
                                         const tutti_tensor *const *outs, int32_t root,
                                         const tutti_options *options, tutti_work **work);
/** Semantics: MPI_Gatherv. */
TUTTI_API tutti_status tutti_gather_v(tutti_group *group, const tutti_tensor *in,
                                      const tutti_tensor *out, const int64_t *counts,
                                      const int64_t *offsets, int32_t root,
                                      const tutti_options *options, tutti_work **work);

/** Every member gets its block of the input of rank `root`. `in`, `ins`, `counts` and `offsets` are
 * read on the root only. The root may return before the others have received. Semantics:
 * MPI_Scatter. */
TUTTI_API tutti_status tutti_scatter(tutti_group *group, const tutti_tensor *in,
                                     const tutti_tensor *out, int32_t root,
                                     const tutti_options *options, tutti_work **work);
/** All tensors have one size. Semantics: torch.distributed.scatter. */
TUTTI_API tutti_status tutti_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                          const tutti_tensor *out, int32_t root,
                                          const tutti_options *options, tutti_work **work);
/** Semantics: MPI_Scatterv. */
TUTTI_API tutti_status tutti_scatter_v(tutti_group *group, const tutti_tensor *in,
                                       const int64_t *counts, const int64_t *offsets,
                                       const tutti_tensor *out, int32_t root,
                                       const tutti_options *options, tutti_work **work);

/** Reduces the members' inputs and gives each member its block of the result. Semantics:
 * torch.distributed.reduce_scatter_tensor; MPI_Reduce_scatter_block. */
TUTTI_API tutti_status tutti_reduce_scatter(tutti_group *group, const tutti_tensor *in,
                                            const tutti_tensor *out, tutti_reduce_op op,
                                            const tutti_options *options, tutti_work **work);
/** The tensors of `ins` may differ in size, in the same way on every member. Semantics:
 * torch.distributed.reduce_scatter. */
TUTTI_API tutti_status tutti_reduce_scatter_list(tutti_group *group, const tutti_tensor *const *ins,
                                                 const tutti_tensor *out, tutti_reduce_op op,
                                                 const tutti_options *options, tutti_work **work);
/** The same counts on every member. Semantics: MPI_Reduce_scatter. */
TUTTI_API tutti_status tutti_reduce_scatter_v(tutti_group *group, const tutti_tensor *in,
                                              const int64_t *counts, const int64_t *offsets,
                                              const tutti_tensor *out, tutti_reduce_op op,
                                              const tutti_options *options, tutti_work **work);

/** Sends block i of `in` to rank i, and receives that rank's block for this member as block i of `out`.
 * In place (each block of `in` is that of `out`) costs a copy of the input. Any other overlap of the
 * two is INVALID_ARGUMENT, in every form. Semantics: torch.distributed.all_to_all_single; MPI_Alltoall. */
TUTTI_API tutti_status tutti_all_to_all(tutti_group *group, const tutti_tensor *in,
                                        const tutti_tensor *out, const tutti_options *options,
                                        tutti_work **work);
/** Each pair of members has a size of its own. Semantics: torch.distributed.all_to_all. */
TUTTI_API tutti_status tutti_all_to_all_list(tutti_group *group, const tutti_tensor *const *ins,
                                             const tutti_tensor *const *outs,
                                             const tutti_options *options, tutti_work **work);
/** Each pair of members has a size of its own. Semantics: MPI_Alltoallv;
 * torch.distributed.all_to_all_single with split sizes. */
TUTTI_API tutti_status tutti_all_to_all_v(tutti_group *group, const tutti_tensor *in,
                                          const int64_t *in_counts, const int64_t *in_offsets,
                                          const tutti_tensor *out, const int64_t *out_counts,
                                          const int64_t *out_offsets, const tutti_options *options,
                                          tutti_work **work);

/** Returns (or completes) only after every member has called it. Semantics:
 * torch.distributed.barrier; MPI_Barrier. */
TUTTI_API tutti_status tutti_barrier(tutti_group *group, const tutti_options *options,
                                     tutti_work **work);

/** As tutti_barrier(), but when the deadline of rank 0 passes, the error names every rank that has not
 * called it. Slower, since all messages go through rank 0. Semantics: torch.distributed.monitored_barrier with
 * wait_all_ranks. */
TUTTI_API tutti_status tutti_monitored_barrier(tutti_group *group, const tutti_options *options,
                                               tutti_work **work);

#ifdef __cplusplus
}
#endif
#endif
