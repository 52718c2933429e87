/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives and messages share: checking arguments, starting, waiting. */
#ifndef TUTTI_COLLECTIVE_CALL_H
#define TUTTI_COLLECTIVE_CALL_H

#include <stddef.h>

#include <tutti/collective.h>

#include "group/group.h"
#include "tensor/packed.h"

/* Checks the group and the options; the call's time-out. */
tutti_status call_check(const struct tutti_group *group, const tutti_options *options,
                        int64_t *ret_timeout_ms);

/*
 * A tensor in host memory that the operation reads or writes on this member: where its elements are
 * in row-major order, how many, how many bytes. One that is not C-contiguous gets a stand-in in
 * `*packed`, which becomes the call's.
 */
tutti_status call_tensor(const tutti_tensor *tensor, const char *what, enum tensor_use use,
                         struct packed **packed, void **ret_data, uint64_t *ret_count,
                         uint64_t *ret_bytes);

static inline struct async_call *call_of_work(struct tutti_work *work)
{
    return (struct async_call *)((char *)work - offsetof(struct async_call, work));
}

/* Memory for a call that nobody waits for. */
tutti_status call_allocate(struct tutti_group *group, struct async_call **ret_call);
/* Gives it back; it was not started. */
void call_give_back(struct async_call *async);
/*
 * Ends the start of such a call, which was made with the baton, and releases the baton. OK: moves
 * things once, and hands the work to the caller, and to the engine if it is not complete. Otherwise
 * nothing was started: the memory goes back, and the status is returned.
 */
tutti_status call_started(struct async_call *async, tutti_status status, tutti_work **ret_work);

/* Waits for a blocking call and returns its status, with the thread's error set. */
tutti_status call_wait(struct call *call);

#endif
