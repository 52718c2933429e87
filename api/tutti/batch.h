/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coalesced batches: the calls that one thread makes on one group between begin and end start together
 * and complete one work.
 */
#ifndef TUTTI_BATCH_H
#define TUTTI_BATCH_H

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Begins a batch of the calling thread on `group`. Until tutti_batch_end(), this thread's collectives,
 * sends and receives on this group are only checked and recorded, and return at once. Pass NULL for
 * `work` and `ret_work`. tutti_batch_isend_irecv() and tutti_group_split() are refused in a batch.
 * `ret_source` and `ret_bytes` of a receive must stay valid until the batch is complete; they are
 * written by then. Do not touch tensors until the batch is complete; their descriptors are read during
 * the call. Calls of other threads, and of this thread on other groups, do not belong to the batch.
 * Batches do not nest: TUTTI_ERR_BUSY if this thread has an open batch on the group. A thread that ends
 * first has made none of the calls of its batch; tutti_group_destroy() logs a warning.
 *
 * Every member calls the same collectives in the same order, as always. Some members may use a batch
 * and others not, unless an engine carries out the calls on devices, as NCCL does: it launches a batch as
 * one, so all members make the same batches, and others are TUTTI_ERR_MISMATCH.
 *
 * Semantics: ncclGroupStart; torch.distributed._coalescing_manager.
 */
TUTTI_API tutti_status tutti_batch_begin(tutti_group *group);

/**
 * Ends the batch: starts its calls in the order in which they were made, with no call of another
 * thread in between. Sends and receives may be in any order, since none waits for the one before.
 *
 * work  NULL: returns when all are complete. Otherwise receives one work for all of them, which
 *       completes with the last; the caller frees it. A batch without calls is complete at once.
 *
 * Errors. A call with invalid arguments returns its error at once and invalidates the batch:
 * tutti_batch_end() then starts nothing and returns the first such error. Any error of
 * tutti_batch_end() means that nothing was started. Later failures belong to the work: it waits for
 * every call, and has the status and message of the first that failed. A message whose size differs
 * from its receive fails alone; a failure of the group ends all calls. The batch is over in any case.
 *
 * Semantics: ncclGroupEnd; torch.distributed._coalescing_manager.
 */
TUTTI_API tutti_status tutti_batch_end(tutti_group *group, tutti_work **work);

#ifdef __cplusplus
}
#endif
#endif
