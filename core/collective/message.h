/* SPDX-License-Identifier: Apache-2.0 */
/* A send or receive whose arguments have been checked. */
#ifndef TUTTI_COLLECTIVE_MESSAGE_H
#define TUTTI_COLLECTIVE_MESSAGE_H

#include "group/group.h"

struct message {
    const char *function; /* of the public API, for errors about arguments */
    enum call_kind kind;
    void *data;
    struct packed *packed; /* until it is posted */
    uint64_t bytes;
    uint64_t tag;
    uint32_t dtype;
    int32_t peer;
    int64_t timeout_ms;
    bool up_to; /* a shorter message is welcome */
    /* In a batch: where the caller wants what is known when it is complete; or NULL. */
    int32_t *ret_source;
    uint64_t *ret_bytes;
};

/* Starts it, with the baton, and takes m->packed: afterwards the call is in the group's list, or
 * complete. On failure it is in no list, and has the thread's error. */
tutti_status message_post(struct tutti_group *group, struct message *m, struct call *call);

#endif
