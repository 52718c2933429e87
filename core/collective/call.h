/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives and messages share: checking arguments, starting, waiting. */
#ifndef TUTTI_COLLECTIVE_CALL_H
#define TUTTI_COLLECTIVE_CALL_H

#include <tutti/collective.h>

#include "group/group.h"

/* Checks the group and the options; the call's time-out. */
tutti_status call_check(const struct tutti_group *group, const tutti_options *options,
                        int64_t *ret_timeout_ms);

/* A tensor in host memory, contiguous: where its elements are, how many, how many bytes. */
tutti_status call_tensor(const tutti_tensor *tensor, const char *what, void **ret_data,
                         uint64_t *ret_count, uint64_t *ret_bytes);

/* Memory for a call that nobody waits for. */
tutti_status call_allocate(struct tutti_group *group, struct async_call **ret_call);
/* Gives it back before it was started. */
void call_return(struct async_call *async);
/* It was started: hands its work to the caller, and to the engine if it is not complete. */
void call_hand_out(struct async_call *async, tutti_work **ret_work);

/* Waits for a blocking call and returns its status, with the thread's error set. */
tutti_status call_wait(struct call *call);

#endif
