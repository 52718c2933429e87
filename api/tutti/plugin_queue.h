/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of requests for transports, from isend() or irecv() to progress(). Optional: everything here is
 * inline, uses the plugin ABI only, and links nothing.
 *
 * A request lies in the core's memory. While it is the transport's, its `opaque` member begins with a
 * tutti_request_place, and it is in at most one queue: first in that of its peer's sends or receives,
 * then, when it is complete, in the queue `done` that progress() reports. So a transport allocates nothing
 * for a message:
 *
 *     struct mine { tutti_request_place place; const void *data; uint64_t bytes; };
 *
 *     isend            request->status = TUTTI_ERR_NOT_READY; fill in the place and what follows it;
 *                      tutti_queue_push(&peer->sends, request); move what can move;
 *                      return tutti_queue_posted(request);
 *     when it is over  tutti_queue_finish(&endpoint->done, peer->sends.first, TUTTI_OK, 0);
 *     progress         move everything; return tutti_queue_report(&endpoint->done, ret_done, capacity);
 *     test             move everything; tutti_queue_posted(request); return request->status;
 *     cancel           tutti_queue_remove(request);
 *     disconnect       tutti_queue_clear() of both queues of the peer, tutti_queue_remove_peer() of `done`
 *
 * A queue that is all zero is empty. None of the functions locks.
 */
#ifndef TUTTI_PLUGIN_QUEUE_H
#define TUTTI_PLUGIN_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Requests in the order in which they were appended. */
typedef struct tutti_request_queue {
    tutti_request *first; /* NULL: it is empty */
    tutti_request *last;  /* NULL: it is empty */
} tutti_request_queue;

/** The beginning of a request's `opaque` member while it is the transport's. */
typedef struct tutti_request_place {
    tutti_request *next;        /* in its queue */
    tutti_request *previous;    /* in its queue */
    tutti_request_queue *queue; /* that it is in; NULL: none */
    tutti_peer *peer;           /* the transport's to set */
} __attribute__((may_alias)) tutti_request_place;

/** The place of `request`; the transport's own struct begins with it. */
static inline tutti_request_place *tutti_queue_place(tutti_request *request)
{
    return (tutti_request_place *)(void *)request->opaque;
}

/** Appends `request`, which is in no queue. */
static inline void tutti_queue_push(tutti_request_queue *queue, tutti_request *request)
{
    tutti_request_place *place = tutti_queue_place(request);

    place->next = NULL;
    place->previous = queue->last;
    place->queue = queue;
    if (queue->last)
        tutti_queue_place(queue->last)->next = request;
    else
        queue->first = request;
    queue->last = request;
}

/** Takes `request` out of the queue that it is in, if any. */
static inline void tutti_queue_remove(tutti_request *request)
{
    tutti_request_place *place = tutti_queue_place(request);
    tutti_request_queue *queue = place->queue;

    if (!queue)
        return;
    if (place->previous)
        tutti_queue_place(place->previous)->next = place->next;
    else
        queue->first = place->next;
    if (place->next)
        tutti_queue_place(place->next)->previous = place->previous;
    else
        queue->last = place->previous;
    place->queue = NULL;
}

/** Completes `request`, with `bytes` of a receive, and moves it to `done`. For transports with `progress`,
 * which empties `done`. */
static inline void tutti_queue_finish(tutti_request_queue *done, tutti_request *request,
                                      tutti_status status, uint64_t bytes)
{
    tutti_queue_remove(request);
    request->bytes = bytes;
    request->status = status;
    tutti_queue_push(done, request);
}

/** Call it at the end of isend, irecv and test: the caller sees the status of a complete request, so
 * progress must not report it again. Returns TUTTI_OK. */
static inline tutti_status tutti_queue_posted(tutti_request *request)
{
    if (request->status != TUTTI_ERR_NOT_READY)
        tutti_queue_remove(request);
    return TUTTI_OK;
}

/** Moves up to `capacity` requests from `done` to `ret_done`, and returns their number, as progress() does. */
static inline uint32_t tutti_queue_report(tutti_request_queue *done, tutti_request **ret_done,
                                          uint32_t capacity)
{
    uint32_t count = 0;

    while (count < capacity && done->first) {
        ret_done[count] = done->first;
        tutti_queue_remove(ret_done[count++]);
    }
    return count;
}

/** Empties the queue; the requests are the core's again, with their present status. */
static inline void tutti_queue_clear(tutti_request_queue *queue)
{
    while (queue->first)
        tutti_queue_remove(queue->first);
}

/** Takes the requests of `peer` out of `done`; the others keep their order. */
static inline void tutti_queue_remove_peer(tutti_request_queue *done, const tutti_peer *peer)
{
    for (tutti_request *request = done->first, *next; request; request = next) {
        next = tutti_queue_place(request)->next;
        if (tutti_queue_place(request)->peer == peer)
            tutti_queue_remove(request);
    }
}

#ifdef __cplusplus
}
#endif
#endif
