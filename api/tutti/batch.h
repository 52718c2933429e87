/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coalesced batches: calls that one thread makes on one group between begin and end are started
 * together and waited for by one work.
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
 * Begins a batch of the calling thread on `group`. Until tutti_batch_end() the thread's collectives,
 * sends and receives on this group are checked, kept, and return at once: with `work` and `ret_work` NULL,
 * because nothing has happened yet (so not with tutti_batch_isend_irecv(), nor while groups are split).
 * `ret_source` and `ret_bytes` of a receive must stay until the batch is complete, and are written by then.
 * Tensors must stay untouched until the batch is
 * complete; their descriptors are read during the call. Calls of other threads, and of this one on
 * other groups, are no part of it. TUTTI_ERR_BUSY when a batch of this thread is open on the group:
 * they do not nest.
 *
 * Every member calls the same collectives in the same order, as ever; whether it does so in a batch
 * is its own affair.
 *
 * Semantics: ncclGroupStart; torch.distributed._coalescing_manager.
 */
TUTTI_API tutti_status tutti_batch_begin(tutti_group *group);

/**
 * Ends the batch: starts its calls in the order in which they were made, with no call of another
 * thread in between. Sends and receives may be in any order, as nothing waits for the one before.
 *
 * work  NULL: returns when all are complete. Otherwise receives one work for all of them, complete
 *       when the last is; the caller frees it. A batch without calls is complete at once.
 *
 * Errors. A call that is refused returns its error at once, and makes the batch void: nothing is
 * started, and tutti_batch_end() returns that first error. An error of tutti_batch_end() means
 * that nothing was started. Afterwards the work tells: it waits for every call, also when one has
 * failed, and has the status and words of the first that did. A message of another size than its
 * receive fails alone, whatever fails the group ends them all. In any case the batch is over.
 *
 * Semantics: ncclGroupEnd; torch.distributed._coalescing_manager.
 */
TUTTI_API tutti_status tutti_batch_end(tutti_group *group, tutti_work **work);

#ifdef __cplusplus
}
#endif
#endif
