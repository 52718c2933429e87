/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of fault_transport.c and fault_messages.c. */
#pragma once

#include "fault.h"

struct deferred { /* in tutti_request.opaque */
    tutti_request *next;
    const void *data;
    uint64_t bytes;
    int64_t due_ns;
    struct tutti_peer *peer;
    uint32_t lane, flags;
    bool corrupt;
};

_Static_assert(sizeof(struct deferred) <= sizeof(((tutti_request *)0)->opaque), "fits");

struct queue {
    tutti_request *first, *last;
};

struct decision {
    bool taken, drop, corrupt;
    int64_t delay_ns;
};

struct tutti_peer {
    struct tutti_peer *next;
    tutti_peer *inner; /* NULL: closed */
    int32_t rank, world_rank;
    uint64_t messages;        /* that were decided on */
    struct decision decision; /* for the parts of the message that is being sent */
    int64_t hold_until_ns;
    struct queue delayed;
};

/* A corrupted payload on its way instead of `original`'s. */
struct copy {
    tutti_request request;
    tutti_request *original;
    uint8_t data[];
};

struct posted {
    tutti_request *request; /* the core's, or a copy's */
    struct tutti_peer *peer;
    struct copy *copy;
};

struct tutti_endpoint {
    tutti_transport_ops ops;
    const tutti_transport_ops *inner_ops;
    tutti_endpoint *inner;
    struct tutti_wrapper *wrapper;
    const tutti_wrapped_group *group;
    struct tutti_endpoint *next; /* of the wrapper */
    struct tutti_peer *peers;
    struct posted *posted;
    uint64_t posted_count, posted_capacity;
    struct queue done; /* complete, and to be reported */
};

static inline struct deferred *deferred_of(tutti_request *request)
{
    return (struct deferred *)(void *)request->opaque;
}

/* ---- fault_messages.c: operations of the transport, and what they need ---- */

tutti_status fault_isend(tutti_endpoint *e, tutti_peer *peer, uint32_t lane, const void *data,
                         uint64_t bytes, uint32_t flags, tutti_request *request);
tutti_status fault_irecv(tutti_endpoint *e, tutti_peer *peer, uint32_t lane, void *data,
                         uint64_t capacity, tutti_request *request);
tutti_status fault_test(tutti_endpoint *e, tutti_request *request);
uint32_t fault_progress(tutti_endpoint *e, tutti_request **ret_done, uint32_t capacity);
void fault_cancel(tutti_endpoint *e, tutti_request *request);
/* Ends the way: what is on it completes as lost. */
void fault_close_way(tutti_endpoint *e, struct tutti_peer *peer);
/* Takes the peer's requests out of what is reported. */
void fault_forget_reports(tutti_endpoint *e, const struct tutti_peer *peer);
