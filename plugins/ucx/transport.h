/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the transport know of each other.
 *
 *   library.c, context.c, address.c  UCX itself, its settings, and what others are told of them
 *   worker.c     the worker of the process, and its connections
 *   flights.c    what UCX has of the messages
 *   messages.c   the core's messages in frames and pieces, and the order in which they come
 *   transport.c  endpoints and peers
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin_queue.h>

#include "worker.h"

/* The plugin's part of a request (tutti_request.opaque). */
struct __attribute__((may_alias)) ucx_request {
    tutti_request_place place; /* first */
    void *data;                /* of a receive */
    uint64_t capacity;
    struct flight *flight; /* NULL: UCX has nothing of it */
};
_Static_assert(sizeof(struct ucx_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

static inline struct ucx_request *ucx_of(tutti_request *request)
{
    return (struct ucx_request *)request->opaque;
}

struct tutti_peer {
    tutti_endpoint *endpoint;
    tutti_peer *next, *previous;
    uint64_t label;
    struct link *link;
    uint64_t losses; /* of the link, when this peer was made */
    uint64_t id;     /* of its endpoint */
    uint64_t send_tag, receive_tag;
    bool lost;                           /* and told */
    bool heard;                          /* something has come from it */
    bool took_back;                      /* a piece: the receiver takes nothing after it */
    bool halted;                         /* the peer took one back */
    bool cut;                            /* what it sends makes no sense */
    bool unseen;                         /* something has come since show() found nothing */
    uint64_t looked;                     /* endpoint->turns, when show() found nothing */
    tutti_request_queue sends, receives; /* in the order posted */
    struct flight *flights;              /* that UCX has */
    unsigned sending;                    /* of these, to the peer */
    struct flight *out;                  /* a frame that is begun, or NULL */
    struct flight *in;                   /* the frame that is read, or NULL */
    struct flight *asked;                /* what UCX is to receive, or NULL: one at a time */
};

struct tutti_endpoint {
    struct caller caller;
    struct worker *worker;
    tutti_endpoint *next; /* of the worker's; under its lock, as the next five */
    struct flight *landed, **last_landed;
    bool asleep;     /* its thread, since flights_arm() */
    bool unserved;   /* and something has landed since */
    uint64_t id;     /* random */
    int wait_fd;     /* -1: not made yet */
    uint64_t losses; /* of the worker's links, of which the core knows */
    tutti_peer *peers;
    tutti_peer *holding; /* whose `out` waits for more; NULL: nobody's */
    uint64_t turns;      /* calls that have moved the worker */
    unsigned unseen;     /* peers with that flag */
    struct spare_flights spare;
    tutti_request_queue done; /* complete, not yet reported */
    uint64_t sent_bytes, received_bytes, sent_messages, received_messages;
};

/* messages.c */
tutti_status messages_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                            const void *data, uint64_t bytes, uint32_t flags,
                            tutti_request *request);
tutti_status messages_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                            uint64_t capacity, tutti_request *request);
tutti_status messages_send_short(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *head, uint64_t head_bytes, const void *body,
                                 uint64_t body_bytes);
tutti_status messages_show(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                           tutti_shown *ret_message);
void messages_take(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane);
tutti_status messages_test(tutti_endpoint *endpoint, tutti_request *request);
uint32_t messages_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity);
void messages_cancel(tutti_endpoint *endpoint, tutti_request *request);
int32_t messages_arm(tutti_endpoint *endpoint);
/* What was begun leaves. */
void messages_let_out(tutti_endpoint *endpoint);
/* The peer goes: nothing of it is under way afterwards. */
void messages_forget(tutti_endpoint *endpoint, tutti_peer *peer);

extern const tutti_transport_ops ucx_transport_ops;
