/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of NCCL, which is made while the caller goes on, and ended on a thread of the plugin:
 * ncclCommAbort() may wait for what is on the device's streams, and ncclCommFinalize() takes until the members of the
 * host have come.
 */
#pragma once

#include <stdbool.h>

#include "library.h"

struct communicator;

/* One that is to be made by communicator_join(). NULL, with errno: there is no memory, or no thread. */
struct communicator *communicator_new(const struct nccl_library *nccl);
/* Begins to make it on the thread's current device; the members call it with the same id. */
ncclResult_t communicator_join(struct communicator *communicator, const ncclUniqueId *id, int rank,
                               int size);
/* Frees one that has no handle. */
void communicator_drop(struct communicator *communicator);
/* Makes a call of NCCL for it on this thread, or on one of its own (worker.h). */
ncclResult_t communicator_call(struct communicator *communicator, ncclResult_t (*call)(void *user),
                               void *user);
/* NULL: NCCL has refused to make it. */
ncclComm_t communicator_handle(const struct communicator *communicator);
/* ncclInProgress: it is being made, or its last call is not on its stream yet. */
ncclResult_t communicator_result(const struct communicator *communicator);
/* Graphs have calls of it: NCCL does not end it before they are destroyed, of which nobody tells. */
void communicator_is_captured(struct communicator *communicator);
/* Ends it: what is on streams does not wait any more. Returns whether that has begun, or is over within some
 * milliseconds. One of them, once. */
bool communicator_begin_abort(struct communicator *communicator);
bool communicator_abort(struct communicator *communicator);
/* Whether it was aborted: no function of NCCL may name it any more, and its end frees this memory of ncclMemAlloc(). */
bool communicator_was_aborted(const struct communicator *communicator);
void communicator_frees(struct communicator *communicator, void *memory);
/* Waits until an abort is over; false: it was not after some seconds, which it waits once. */
bool communicator_await_end(struct communicator *communicator);
/* Gives it back. Unless it was aborted, it ends when all members have given it back, or after some seconds. */
void communicator_close(struct communicator *communicator);
/* At the end of the process: waits some seconds for those that are not at their end, as long as other members may need,
 * or for aborts alone. Those that graphs may have are waited for no longer than aborts. */
void communicators_wait(bool for_others);
