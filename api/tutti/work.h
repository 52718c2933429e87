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

typedef struct tutti_work tutti_work;

/**
 * Waits until the operation is complete and returns its status. `timeout_ms` 0 waits as long as
 * the operation's own deadline; when a positive time-out ends first the answer is
 * TUTTI_ERR_NOT_READY and nothing has changed.
 */
TUTTI_API tutti_status tutti_work_wait(tutti_work *work, int64_t timeout_ms);

/** Progresses, then tells whether the operation is complete: `ret_done` 0 or 1. Returns the
 * operation's status once it is complete, TUTTI_OK before. */
TUTTI_API tutti_status tutti_work_test(tutti_work *work, int32_t *ret_done);

/** The words of a failed work, "" otherwise. Valid until the work is freed. */
TUTTI_API const char *tutti_work_error(const tutti_work *work);

/** The rank that a completed receive came from, -1 for anything else. */
TUTTI_API int32_t tutti_work_source(const tutti_work *work);

typedef void (*tutti_work_fn)(tutti_work *work, tutti_status status, void *user);

/**
 * Calls fn(work, status, user) exactly once when the operation completes, on the engine thread and
 * with no lock held; also when it has completed already. fn may issue operations and free works,
 * it may not wait or destroy. One callback a work: a second is TUTTI_ERR_BUSY.
 */
TUTTI_API tutti_status tutti_work_then(tutti_work *work, tutti_work_fn fn, void *user);

/** Makes the context's descriptor (tutti_context_fd) readable when this work completes. */
TUTTI_API tutti_status tutti_work_watch(tutti_work *work);

/** Drops the handle; NULL is allowed. */
TUTTI_API void tutti_work_free(tutti_work *work);

#ifdef __cplusplus
}
#endif
#endif
