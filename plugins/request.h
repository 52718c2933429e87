/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in queues: what transports of this tree do alike with the core's requests. A request lies
 * in the core's memory; while it is a plugin's it is in at most one queue, that of its peer's sends or
 * receives and, once complete, that of what progress() has to report. Includes nothing but the plugin
 * ABI, so that a plugin elsewhere may take it along.
 */
#ifndef TUTTI_PLUGINS_REQUEST_H
#define TUTTI_PLUGINS_REQUEST_H

#include <stdint.h>

#include <tutti/plugin.h>

struct request_queue {
    tutti_request *first, *last;
};

/* How what a plugin keeps in tutti_request.opaque begins. */
struct __attribute__((may_alias)) request_place {
    tutti_request *next, *previous;
    struct request_queue *queue; /* that it is in; NULL: none */
    tutti_peer *peer;
};

static inline struct request_place *request_place(tutti_request *request)
{
    return (struct request_place *)request->opaque;
}

static inline void request_push(struct request_queue *queue, tutti_request *request)
{
    struct request_place *place = request_place(request);

    place->next = NULL;
    place->previous = queue->last;
    place->queue = queue;
    if (queue->last)
        request_place(queue->last)->next = request;
    else
        queue->first = request;
    queue->last = request;
}

/* Takes `request` out of the queue that it is in, if any. */
static inline void request_remove(tutti_request *request)
{
    struct request_place *place = request_place(request);
    struct request_queue *queue = place->queue;

    if (!queue)
        return;
    if (place->previous)
        request_place(place->previous)->next = place->next;
    else
        queue->first = place->next;
    if (place->next)
        request_place(place->next)->previous = place->previous;
    else
        queue->last = place->previous;
    place->queue = NULL;
}

/* Makes the request complete; progress reports it, from `done`. */
static inline void request_finish(struct request_queue *done, tutti_request *request,
                                  tutti_status status, uint64_t bytes)
{
    request_remove(request);
    request->bytes = bytes;
    request->status = status;
    request_push(done, request);
}

/* A request that is complete when the call that posted it returns is not reported again. */
static inline tutti_status request_posted(tutti_request *request)
{
    if (request->status != TUTTI_ERR_NOT_READY)
        request_remove(request);
    return TUTTI_OK;
}

/* What progress() returns: up to `capacity` of those that are done. */
static inline uint32_t request_report(struct request_queue *done, tutti_request **ret_done,
                                      uint32_t capacity)
{
    uint32_t count = 0;

    while (count < capacity && done->first) {
        ret_done[count] = done->first;
        request_remove(ret_done[count++]);
    }
    return count;
}

/* Forgets them: they are the core's again, as they are. */
static inline void request_forget_all(struct request_queue *queue)
{
    while (queue->first)
        request_remove(queue->first);
}

static inline void request_forget_peer(struct request_queue *done, const tutti_peer *peer)
{
    for (tutti_request *request = done->first, *next; request; request = next) {
        next = request_place(request)->next;
        if (request_place(request)->peer == peer)
            request_remove(request);
    }
}

#endif
