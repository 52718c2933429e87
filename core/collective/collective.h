/* SPDX-License-Identifier: Apache-2.0 */
/* A collective call whose arguments have been checked. */
#ifndef TUTTI_COLLECTIVE_COLLECTIVE_H
#define TUTTI_COLLECTIVE_COLLECTIVE_H

#include <tutti/work.h>

#include "group/group.h"

struct collective {
    const char *function; /* of the public API, for errors about arguments */
    struct call_words words;
    struct blocks in, out;
    uint64_t bytes;          /* of the vector, or of each block */
    struct call_sizes sizes; /* when the words have CALL_UNEVEN */
    struct chain memory;     /* what blocks and sizes point into */
    struct packed *packed;   /* stand-ins of tensors that are not C-contiguous */
    int64_t timeout_ms;
    struct reduce_op *op; /* a reference; NULL: built in, or none */
};

/* Runs it, starts it when `work` is given, or keeps it for the batch that this thread has open;
 * `status` is what checking the arguments came to: if that is an error, it is returned. Takes
 * c->memory and c->packed in any case. */
tutti_status collective_run(struct tutti_group *group, struct collective *c, tutti_status status,
                            tutti_work **work);

/* Number, plan and record of a call that is started now, with the baton. Takes c->memory and
 * c->packed when it returns OK. */
tutti_status collective_begin(struct tutti_group *group, struct collective *c, struct call *call);

/* INVALID_ARGUMENT unless it is a rank of the group. */
tutti_status collective_check_root(const struct tutti_group *group, int32_t root);

#endif
