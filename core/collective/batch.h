/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a call joins a batch, for those who would start it otherwise. */
#ifndef TUTTI_COLLECTIVE_BATCH_H
#define TUTTI_COLLECTIVE_BATCH_H

#include "collective/collective.h"
#include "collective/message.h"
#include "group/group.h"

struct batch;

struct batch *batch_find(struct tutti_group *group);

/* The batch that this thread has open on the group; NULL: none. */
static inline struct batch *batch_of(struct tutti_group *group)
{
    return group && atomic_load_explicit(&group->open_batches, memory_order_relaxed)
               ? batch_find(group)
               : NULL;
}

/*
 * Keeps a call until the batch ends, and returns `status`, which is what checking it came to; any
 * error makes the batch void. `wants` tells that the caller asks for a work, of which a batch has one
 * for all. Takes the memory of `c` or `m` when it returns OK.
 */
tutti_status batch_add_collective(struct batch *batch, struct collective *c, tutti_status status,
                                  bool wants);
tutti_status batch_add_message(struct batch *batch, struct message *m, tutti_status status,
                               bool wants);

#endif
