/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work: the handle of one operation in flight. Any thread may use it. If you free it early, the
 * operation goes on.
 */
#ifndef TUTTI_WORK_H
#define TUTTI_WORK_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An operation that was started. Opaque. */
typedef struct tutti_work tutti_work;

/**
 * Waits until the operation is complete and returns its status. `timeout_ms` 0 waits as long as
 * the operation's own deadline; tutti_work_test() does not wait. If a positive timeout ends first,
 * the call returns TUTTI_ERR_NOT_READY and the operation goes on. A negative timeout is refused.
 * TUTTI_ERR_CAPTURED: the call was captured into a graph, which runs it; nothing of it can be waited for.
 */
TUTTI_API tutti_status tutti_work_wait(tutti_work *work, int64_t timeout_ms);

/**
 * Lets later work on `stream`, which is of the group's device (NULL: its legacy stream), wait until the operation
 * is complete. The caller does not wait, unless the device cannot make a stream wait for the host, or the
 * group's backend moves operations only while the program calls: then it waits as tutti_work_wait()
 * does. The stream goes on also if the operation fails: ask tutti_work_test() before you use the result. The
 * handle may be freed at once.
 *
 * A work that was captured into a graph orders streams of the same capture; `stream` joins the capture if it is no part of it.
 *
 * Returns TUTTI_OK; the operation's status if it is complete; UNSUPPORTED where no call has used a device yet, and for
 * a stream that is captured when the work is not; CAPTURED once the capture of the work is complete; INVALID_ARGUMENT for a
 * stream of another device.
 * Semantics: torch.distributed.Work.wait() of NCCL; cudaStreamWaitEvent.
 */
TUTTI_API tutti_status tutti_work_wait_stream(tutti_work *work, void *stream);

/** Makes progress, and sets `ret_done` to 1 if the operation is complete, else to 0. Returns the
 * operation's status if it is complete, otherwise TUTTI_OK. */
TUTTI_API tutti_status tutti_work_test(tutti_work *work, int32_t *ret_done);

/**
 * Waits until all `count` works are complete, for at most `timeout_ms` together (0: as long as
 * their own deadlines; tutti_work_test_any() does not wait). NULL entries are skipped and count as
 * TUTTI_OK.
 *
 * ret_statuses  NULL, or [count]: the status of each work, TUTTI_ERR_NOT_READY if it is not
 *               complete. Also written if a work failed or the timeout ended.
 *
 * Returns TUTTI_OK if all succeeded. If some failed, returns the status of the one with the lowest
 * index, and tutti_last_error() names the index. Otherwise TUTTI_ERR_NOT_READY. The caller frees the
 * works.
 * Semantics: MPI_Waitall.
 */
TUTTI_API tutti_status tutti_work_wait_all(tutti_work *const *works, uint32_t count,
                                           int64_t timeout_ms, tutti_status *ret_statuses);

/**
 * Waits until any of `count` works is complete, and returns its status. If `timeout_ms` (0: only
 * their own deadlines) ends first, returns TUTTI_ERR_NOT_READY. NULL entries are skipped: free a work
 * that you have handled, and set its entry to NULL.
 *
 * ret_index  the index of the complete work, also if it failed; the lowest if there are several. -1
 *            if none is complete, and if all entries are NULL (which is TUTTI_OK).
 *
 * Semantics: MPI_Waitany.
 */
TUTTI_API tutti_status tutti_work_wait_any(tutti_work *const *works, uint32_t count,
                                           int64_t timeout_ms, int32_t *ret_index);

/**
 * Makes progress. If any of `count` works is complete, returns its status and sets `ret_index`;
 * otherwise returns TUTTI_OK with `ret_index` -1. Never waits. NULL entries are skipped.
 * Semantics: MPI_Testany.
 */
TUTTI_API tutti_status tutti_work_test_any(tutti_work *const *works, uint32_t count,
                                           int32_t *ret_index);

/**
 * Withdraws a receive that no message has matched, or a send that still waits for its receive (what is
 * not buffered, see tutti_send()). The work completes with TUTTI_ERR_ABORTED, and its tensor is the
 * caller's again. No other rank is affected, with one exception: a receive that has matched the
 * withdrawn send takes the next message instead. If a later message has already gone to another receive,
 * the receive ends with TUTTI_ERR_ABORTED, too.
 * Returns TUTTI_ERR_BUSY if the operation has begun to move data or is complete, and for every
 * collective (tutti_group_abort() ends these with their group). Small sends complete at once.
 * Semantics: MPI_Cancel, which here returns its outcome.
 */
TUTTI_API tutti_status tutti_work_cancel(tutti_work *work);

/** The result of tutti_work_result(). */
typedef struct tutti_work_info {
    uint32_t struct_size;
    int32_t source;    /* the rank that a received message came from; -1 for anything else */
    uint64_t bytes;    /* of the message that was sent or received; of a collective's tensor */
    uint64_t sequence; /* the number of a collective in its group; 0 for a message */
} tutti_work_info;

/**
 * Describes a work that succeeded; ret_info->struct_size must be set. Returns TUTTI_ERR_NOT_READY if
 * it is not complete, and its own status if it failed; `ret_info` is not written then. The data are in
 * the tensors of the operation.
 * Semantics: MPI_Status and MPI_Get_count; torch.distributed.Work.source_rank.
 */
TUTTI_API tutti_status tutti_work_result(const tutti_work *work, tutti_work_info *ret_info);

/** The error message of a failed work; "" if it succeeded or is not complete. Valid until the work is
 * freed. */
TUTTI_API const char *tutti_work_error(const tutti_work *work);

/** The rank that a completed receive came from, -1 for anything else. */
TUTTI_API int32_t tutti_work_source(const tutti_work *work);

/** See tutti_work_then(). */
typedef void (*tutti_work_fn)(tutti_work *work, tutti_status status, void *user);

/**
 * Calls fn(work, status, user) exactly once when the operation completes, also if it is complete
 * already. fn runs on tutti's own thread or in tutti_dispatch(), whichever comes first, with no lock
 * held. It may start operations and free works. It must not wait or destroy. Callbacks run one after
 * another: do long work on a thread of the program. A second callback on a work is TUTTI_ERR_BUSY.
 */
TUTTI_API tutti_status tutti_work_then(tutti_work *work, tutti_work_fn fn, void *user);

/** See tutti_work_on_release(). */
typedef void (*tutti_release_fn)(void *user);

/**
 * Calls fn(user) exactly once when tutti no longer uses the operation's tensors: after it completed or
 * failed, and after the callback of tutti_work_then(), also if the handle was freed. If an engine
 * cannot withdraw a failed operation (a warning says so), fn runs when the group is destroyed. For a
 * batch, fn runs when tutti uses the tensors of none of its calls. fn runs on the threads of
 * tutti_work_then() with no lock held, so it may take locks of the caller. A second function is
 * TUTTI_ERR_BUSY. For bindings that keep buffers alive.
 */
TUTTI_API tutti_status tutti_work_on_release(tutti_work *work, tutti_release_fn fn, void *user);

/** Makes the context's descriptor (tutti_context_fd) readable when this work completes. */
TUTTI_API tutti_status tutti_work_watch(tutti_work *work);

/** Frees the handle; the operation goes on. NULL is allowed. */
TUTTI_API void tutti_work_free(tutti_work *work);

#ifdef __cplusplus
}
#endif
#endif
