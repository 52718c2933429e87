/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work: the handle of one operation in flight. Any thread may use it. Freeing it early detaches it:
 * the operation goes on.
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
 * the operation's own deadline; tutti_work_test() is the call that does not wait. When a positive
 * time-out ends first the answer is TUTTI_ERR_NOT_READY and nothing has changed. A negative one is
 * refused.
 */
TUTTI_API tutti_status tutti_work_wait(tutti_work *work, int64_t timeout_ms);

/** Progresses, then tells whether the operation is complete: `ret_done` 0 or 1. Returns the
 * operation's status once it is complete, TUTTI_OK before. */
TUTTI_API tutti_status tutti_work_test(tutti_work *work, int32_t *ret_done);

/**
 * Waits until all `count` works are complete, for at most `timeout_ms` together (0: as long as
 * their own deadlines; tutti_work_test_any() looks without waiting). NULL entries are skipped and count as TUTTI_OK.
 *
 * ret_statuses  NULL, or [count]: the status of each, TUTTI_ERR_NOT_READY of those that are not
 *               complete. Also written when a work has failed or the time was over.
 *
 * Returns TUTTI_OK when all ended well; else the status of the failed work with the lowest index,
 * whose words name the index; else TUTTI_ERR_NOT_READY. The works stay the caller's to free.
 * Semantics: MPI_Waitall.
 */
TUTTI_API tutti_status tutti_work_wait_all(tutti_work *const *works, uint32_t count,
                                           int64_t timeout_ms, tutti_status *ret_statuses);

/**
 * Waits until any of `count` works is complete, and returns its status: TUTTI_ERR_NOT_READY when
 * `timeout_ms` (0: no limit but their own deadlines) came first. NULL entries are skipped, so a work
 * that was dealt with is freed and its entry set to NULL.
 *
 * ret_index  of the complete work, the lowest if there are several, however it ended; -1 when none
 *            is, and when all entries are NULL (which is TUTTI_OK).
 *
 * Semantics: MPI_Waitany.
 */
TUTTI_API tutti_status tutti_work_wait_any(tutti_work *const *works, uint32_t count,
                                           int64_t timeout_ms, int32_t *ret_index);

/**
 * Progresses, then tells whether any of `count` works is complete, and returns its status; TUTTI_OK with
 * `ret_index` -1 when none is. Waits for nothing: for a loop that has other work. NULL entries are skipped.
 * Semantics: MPI_Testany.
 */
TUTTI_API tutti_status tutti_work_test_any(tutti_work *const *works, uint32_t count,
                                           int32_t *ret_index);

/**
 * Withdraws a receive that no message has matched, or a send of which nothing has left but its announcement
 * (that of more than 64 KiB, which waits for its receive): the work is complete with TUTTI_ERR_ABORTED, its
 * tensor is the caller's again, and nobody else hears of it. A receive that meets the announcement while it is
 * taken back waits for the next message; where one that was sent later has met another receive meanwhile, it
 * ends with TUTTI_ERR_ABORTED, too.
 * Anything else goes on and the answer is TUTTI_ERR_BUSY: what is under way or complete, and every
 * collective (tutti_group_abort() ends these with their group). Small sends are complete at once.
 * Semantics: MPI_Cancel, with its outcome told at once.
 */
TUTTI_API tutti_status tutti_work_cancel(tutti_work *work);

/** What tutti_work_result() tells. */
typedef struct tutti_work_info {
    uint32_t struct_size;
    int32_t source;    /* the rank that a received message came from; -1 for anything else */
    uint64_t bytes;    /* of the message that was sent or received; of a collective's tensor */
    uint64_t sequence; /* the number of a collective in its group; 0 for a message */
} tutti_work_info;

/**
 * What a work that ended well has brought; ret_info->struct_size must be set. TUTTI_ERR_NOT_READY
 * while it is not complete, its own status when it has failed: nothing is written then. Results
 * are in the tensors that the operation was given.
 * Semantics: MPI_Status and MPI_Get_count; torch.distributed.Work.source_rank.
 */
TUTTI_API tutti_status tutti_work_result(const tutti_work *work, tutti_work_info *ret_info);

/** The words of a failed work, "" otherwise and before it is complete. Valid until the work is
 * freed. */
TUTTI_API const char *tutti_work_error(const tutti_work *work);

/** The rank that a completed receive came from, -1 for anything else. */
TUTTI_API int32_t tutti_work_source(const tutti_work *work);

/** See tutti_work_then(). */
typedef void (*tutti_work_fn)(tutti_work *work, tutti_status status, void *user);

/**
 * Calls fn(work, status, user) exactly once when the operation completes, on tutti's own thread or
 * in tutti_dispatch(), whichever comes first, and with no lock held; also when it has completed
 * already. fn may issue operations and free works, it may not wait or destroy: callbacks run one
 * after another, and what takes long belongs on a thread of the program's own. One callback a work:
 * a second is TUTTI_ERR_BUSY.
 */
TUTTI_API tutti_status tutti_work_then(tutti_work *work, tutti_work_fn fn, void *user);

/** See tutti_work_on_release(). */
typedef void (*tutti_release_fn)(void *user);

/**
 * Calls fn(user) exactly once when tutti does not use the operation's tensors any more: after it is complete,
 * well or badly, and after the function of tutti_work_then(); also when the handle was freed meanwhile. Where
 * an engine cannot withdraw an operation that failed (a warning says so), that is when the group is destroyed.
 * For a batch: when that holds for all its calls. On the threads of tutti_work_then(), with no lock held; fn
 * may take locks of the caller's. A second function is TUTTI_ERR_BUSY. For bindings, which keep buffers alive.
 */
TUTTI_API tutti_status tutti_work_on_release(tutti_work *work, tutti_release_fn fn, void *user);

/** Makes the context's descriptor (tutti_context_fd) readable when this work completes. */
TUTTI_API tutti_status tutti_work_watch(tutti_work *work);

/** Drops the handle; NULL is allowed. */
TUTTI_API void tutti_work_free(tutti_work *work);

#ifdef __cplusplus
}
#endif
#endif
