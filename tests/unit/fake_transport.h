/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport inside one process, as unfriendly as the ABI allows: it reads and writes the memory
 * of a request as late as it may, delivers at random times, is full at random, completes at once at
 * random, and can do without each optional function. It also watches the wire: nobody may
 * spend more credit than it was given, nor say that a send follows at once and let the transport
 * progress before it. Checksums may stand in front of it, and then it may alter what it carries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/plugin.h>

#include "p2p/p2p.h"
#include "p2p/p2p_inside.h"

enum { FAKE_MEMBERS_MAX = 8, FAKE_SHORT = 4096 };

struct fake_message {
    struct fake_message *next;
    tutti_request *request; /* NULL: the sender was told that it is complete */
    const void *data;
    void *own;
    uint64_t bytes;
};

struct fake_queue {
    struct fake_message *first, **last;
    unsigned count;
};

/* One direction between two members. */
struct fake_link {
    struct fake_queue sends, receives;
    tutti_status broken;
    uint64_t payload; /* announced by the last header that passed; 0: a header is next */
    uint64_t joined;  /* messages of a header and a payload that passed */
    uint64_t goes;    /* sends behind which none was said to follow at once */
    bool more;        /* the last send is to be followed at once; until the next is tried */
    bool shown;       /* the first of `sends` was, and is not taken */
    uint64_t eager;   /* unreturned, as seen on the wire */
    uint64_t passed;  /* headers, by kind below */
    uint64_t kinds[P2P_KIND_END];
    uint64_t eager_peak;
};

struct fake_net {
    uint64_t random;
    int members;
    int busy;       /* percent of isend and irecv that are refused */
    int lazy;       /* percent of deliveries that wait for another time */
    int at_once;    /* percent of sends that are complete when isend returns */
    int around;     /* percent of messages shown in two parts */
    unsigned depth; /* sends that a link takes */
    unsigned shows; /* bit i: member i's transport does */
    bool checksums; /* are on the wire, too, which is not watched then */
    uint64_t
        flip_at; /* the message, of all that are delivered, of which a bit is altered; 0: none */
    uint64_t delivered;
    uint64_t pairs_sent, pairs_taken;
    uint64_t violations;
    tutti_transport_ops ops;
    struct fake_link links[FAKE_MEMBERS_MAX][FAKE_MEMBERS_MAX];
};

struct tutti_endpoint {
    struct fake_net *net;
    int rank;
    tutti_request *done[4096];
    unsigned done_count;
};

struct tutti_peer {
    int rank;
};

static inline uint64_t fake_random(struct fake_net *net)
{
    net->random ^= net->random << 13;
    net->random ^= net->random >> 7;
    net->random ^= net->random << 17;
    return net->random * UINT64_C(0x2545f4914f6cdd1d) >> 11;
}

static inline bool fake_chance(struct fake_net *net, int percent)
{
    return percent && (int)(fake_random(net) % 100) < percent;
}

static inline void fake_push(struct fake_queue *queue, struct fake_message *message)
{
    message->next = NULL;
    if (!queue->first)
        queue->last = &queue->first;
    *queue->last = message;
    queue->last = &message->next;
    queue->count++;
}

static inline struct fake_message *fake_pop(struct fake_queue *queue)
{
    struct fake_message *message = queue->first;

    if (message) {
        queue->first = message->next;
        queue->count--;
    }
    return message;
}

static inline struct tutti_endpoint *fake_endpoints(struct fake_net *net, int rank)
{
    static struct tutti_endpoint endpoints[FAKE_MEMBERS_MAX];

    endpoints[rank].net = net;
    endpoints[rank].rank = rank;
    return &endpoints[rank];
}

static inline void fake_complete(struct fake_net *net, int rank, tutti_request *request,
                                 tutti_status status)
{
    struct tutti_endpoint *endpoint = fake_endpoints(net, rank);

    request->status = status;
    if (net->ops.progress)
        endpoint->done[endpoint->done_count++] = request;
}

/* What a wire tap sees of credit: from `a` to `b`. */
static inline void fake_watch(struct fake_net *net, int a, int b, const void *data, uint64_t bytes)
{
    struct fake_link *link = &net->links[a][b], *back = &net->links[b][a];
    struct p2p_header header;
    uint32_t header_bytes;
    uint64_t window = (64 << 20) / (unsigned)net->members;

    if (net->checksums)
        return;
    if (window > 1 << 20)
        window = 1 << 20;
    if (link->payload) {
        net->violations += bytes != link->payload;
        link->payload = 0;
        return;
    }
    if (p2p_wire_decode(data, bytes, &header, &header_bytes) ||
        (bytes > header_bytes && !(net->shows & 1u << b))) {
        net->violations++;
        return;
    }
    link->joined += bytes > header_bytes;
    link->payload = bytes > header_bytes ? 0 : p2p_wire_payload(&header);
    link->kinds[header.kind]++;
    back->eager -= header.credit;
    if (header.kind == P2P_MESSAGE || header.kind == P2P_COLLECTIVE)
        link->eager += header.bytes;
    if (link->eager > link->eager_peak)
        link->eager_peak = link->eager;
    net->violations += link->eager > window || back->eager > window;
}

static inline void fake_break(struct fake_net *net, int a, int b, tutti_status status)
{
    struct fake_link *link = &net->links[a][b];
    struct fake_message *message;

    link->broken = status;
    link->shown = link->more = false;
    while ((message = fake_pop(&link->sends))) {
        if (message->request)
            fake_complete(net, a, message->request, status);
        free(message->own);
        free(message);
    }
    while ((message = fake_pop(&link->receives))) {
        fake_complete(net, b, message->request, status);
        free(message);
    }
}

/* Nothing passes between the two any more, in either direction. */
static inline void fake_cut(struct fake_net *net, int a, int b)
{
    fake_break(net, a, b, TUTTI_ERR_PEER_LOST);
    fake_break(net, b, a, TUTTI_ERR_PEER_LOST);
}

static inline bool fake_deliver(struct fake_net *net, int a, int b)
{
    struct fake_link *link = &net->links[a][b];

    if (!link->sends.first || !link->receives.first || fake_chance(net, net->lazy))
        return false;

    struct fake_message *out = fake_pop(&link->sends), *in = fake_pop(&link->receives);
    bool fits = out->bytes <= in->bytes;
    if (fits) {
        uint8_t *to = (uint8_t *)(uintptr_t)in->data;

        if (out->bytes)
            memcpy(to, out->data, out->bytes);
        if (++net->delivered >= net->flip_at && net->flip_at && out->bytes) {
            const uint64_t bit = fake_random(net) % (8 * out->bytes);

            to[bit / 8] ^= (uint8_t)(1 << bit % 8);
            net->flip_at = 0;
        }
        fake_watch(net, a, b, out->data, out->bytes);
        in->request->bytes = out->bytes;
    }
    fake_complete(net, b, in->request, fits ? TUTTI_OK : TUTTI_ERR_INTERNAL);
    if (out->request)
        fake_complete(net, a, out->request, TUTTI_OK);
    free(out->own);
    free(out);
    free(in);
    return true;
}

static inline void fake_move(struct tutti_endpoint *endpoint)
{
    struct fake_net *net = endpoint->net;

    for (int other = 0; other < net->members; other++) {
        net->violations += net->links[endpoint->rank][other].more;
        while (fake_deliver(net, other, endpoint->rank))
            ;
    }
}

static inline tutti_status fake_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                      const void *data, uint64_t bytes, uint32_t flags,
                                      tutti_request *request)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[endpoint->rank][peer->rank];

    (void)lane;
    if (link->broken) {
        request->status = link->broken;
        return TUTTI_OK;
    }
    link->more = false;
    if (link->sends.count >= net->depth || fake_chance(net, net->busy))
        return TUTTI_ERR_BUSY;

    struct fake_message *message = calloc(1, sizeof *message);
    link->more = flags & TUTTI_SEND_MORE;
    link->goes += !(flags & TUTTI_SEND_MORE);
    message->data = data;
    message->bytes = bytes;
    if (fake_chance(net, net->at_once)) {
        message->own = malloc(bytes ? bytes : 1);
        if (bytes)
            memcpy(message->own, data, bytes);
        message->data = message->own;
        request->status = TUTTI_OK;
    } else {
        message->request = request;
        request->status = TUTTI_ERR_NOT_READY;
    }
    fake_push(&link->sends, message);
    return TUTTI_OK;
}

static inline tutti_status fake_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                      void *data, uint64_t capacity, tutti_request *request)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[peer->rank][endpoint->rank];

    (void)lane;
    net->violations += link->shown;
    if (link->broken) {
        request->status = link->broken;
        return TUTTI_OK;
    }
    if (fake_chance(net, net->busy))
        return TUTTI_ERR_BUSY;

    struct fake_message *message = calloc(1, sizeof *message);
    message->data = data;
    message->bytes = capacity;
    message->request = request;
    request->status = TUTTI_ERR_NOT_READY;
    fake_push(&link->receives, message);
    return TUTTI_OK;
}

/* ---- short messages ---- */

static inline struct fake_message *fake_copy_of(const void *head, uint64_t head_bytes,
                                                const void *body, uint64_t body_bytes)
{
    struct fake_message *message = calloc(1, sizeof *message);
    uint8_t *own = malloc(head_bytes + body_bytes + 1);

    memcpy(own, head, head_bytes);
    if (body_bytes)
        memcpy(own + head_bytes, body, body_bytes);
    message->data = message->own = own;
    message->bytes = head_bytes + body_bytes;
    return message;
}

static inline tutti_status fake_send_short(tutti_endpoint *endpoint, tutti_peer *peer,
                                           uint32_t lane, const void *head, uint64_t head_bytes,
                                           const void *body, uint64_t body_bytes)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[endpoint->rank][peer->rank];

    (void)lane;
    net->violations += head_bytes + body_bytes > net->ops.short_bytes;
    link->more = false;
    if (link->broken || link->sends.count >= net->depth || fake_chance(net, net->busy))
        return TUTTI_ERR_BUSY;

    fake_push(&link->sends, fake_copy_of(head, head_bytes, body, body_bytes));
    return TUTTI_OK;
}

static inline tutti_status fake_show(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                     tutti_shown *ret_message)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[peer->rank][endpoint->rank];
    struct fake_message *first = link->sends.first;

    (void)lane;
    net->violations += link->receives.first != NULL;
    if (link->broken)
        return link->broken;
    if (!first || fake_chance(net, net->lazy))
        return TUTTI_ERR_NOT_READY;
    if (first->bytes > net->ops.short_bytes)
        return TUTTI_ERR_BUSY;

    const uint64_t cut = first->bytes && fake_chance(net, net->around)
                             ? fake_random(net) % first->bytes
                             : first->bytes;
    *ret_message = (tutti_shown){.data = first->data,
                                 .bytes = cut,
                                 .rest = (const uint8_t *)first->data + cut,
                                 .rest_bytes = first->bytes - cut};
    if (!link->shown)
        fake_watch(net, peer->rank, endpoint->rank, first->data, first->bytes);
    link->shown = true;
    return TUTTI_OK;
}

/* The memory is gone, so a sanitizer sees who reads it later. */
static inline void fake_take(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[peer->rank][endpoint->rank];
    struct fake_message *message = link->shown ? fake_pop(&link->sends) : NULL;

    (void)lane;
    link->shown = false;
    if (!message)
        return; /* the link was broken meanwhile */
    if (message->request)
        fake_complete(net, peer->rank, message->request, TUTTI_OK);
    free(message->own);
    free(message);
}

static inline tutti_status fake_send_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                          const void *head, uint64_t head_bytes, const void *body,
                                          uint64_t body_bytes)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[endpoint->rank][peer->rank];

    (void)lane;
    net->violations += head_bytes > net->ops.short_bytes;
    link->more = false;
    if (link->broken || link->sends.count + 1 >= net->depth || fake_chance(net, net->busy))
        return TUTTI_ERR_BUSY;
    fake_push(&link->sends, fake_copy_of(head, head_bytes, NULL, 0));
    fake_push(&link->sends, fake_copy_of(body, body_bytes, NULL, 0));
    net->pairs_sent++;
    return TUTTI_OK;
}

/* What it does not take has been written to by then. */
static inline tutti_status fake_take_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                          void *to, uint64_t bytes)
{
    struct fake_net *net = endpoint->net;
    struct fake_link *link = &net->links[peer->rank][endpoint->rank];
    const struct fake_message *second = link->shown ? link->sends.first->next : NULL;

    memset(to, 0xee, bytes);
    if (!second || second->bytes != bytes || fake_chance(net, net->lazy))
        return TUTTI_ERR_NOT_READY;
    memcpy(to, second->data, bytes);
    fake_watch(net, peer->rank, endpoint->rank, second->data, bytes);
    fake_take(endpoint, peer, lane);
    link->shown = true;
    fake_take(endpoint, peer, lane);
    net->pairs_taken++;
    return TUTTI_OK;
}

static inline tutti_status fake_test(tutti_endpoint *endpoint, tutti_request *request)
{
    fake_move(endpoint);
    return request->status;
}

static inline uint32_t fake_progress(tutti_endpoint *endpoint, tutti_request **ret_done,
                                     uint32_t capacity)
{
    uint32_t count = 0;

    fake_move(endpoint);
    while (count < capacity && count < endpoint->done_count) {
        ret_done[count] = endpoint->done[count];
        count++;
    }
    endpoint->done_count -= count;
    memmove(endpoint->done, endpoint->done + count, endpoint->done_count * sizeof *endpoint->done);
    return count;
}

static inline bool fake_forget(struct fake_queue *queue, const tutti_request *request)
{
    for (struct fake_message **at = &queue->first; *at; at = &(*at)->next) {
        struct fake_message *message = *at;

        if (message->request != request)
            continue;
        *at = message->next;
        if (queue->last == &message->next)
            queue->last = at;
        queue->count--;
        free(message->own);
        free(message);
        return true;
    }
    return false;
}

/* Ends the stream of both directions, as a connection in the middle of a message would. */
static inline void fake_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    struct fake_net *net = endpoint->net;

    for (unsigned i = 0; i < endpoint->done_count; i++) {
        if (endpoint->done[i] == request) {
            endpoint->done_count--;
            memmove(endpoint->done + i, endpoint->done + i + 1,
                    (endpoint->done_count - i) * sizeof *endpoint->done);
            return;
        }
    }
    for (int other = 0; other < net->members; other++) {
        if (fake_forget(&net->links[endpoint->rank][other].sends, request) ||
            fake_forget(&net->links[other][endpoint->rank].receives, request)) {
            fake_cut(net, endpoint->rank, other);
            return;
        }
    }
}

static inline tutti_peer *fake_peer(int rank)
{
    static tutti_peer peers[FAKE_MEMBERS_MAX];

    peers[rank].rank = rank;
    return &peers[rank];
}

static inline tutti_status fake_connect(tutti_endpoint *endpoint, const void *address,
                                        uint64_t bytes, uint64_t label, tutti_peer **ret_peer)
{
    (void)endpoint, (void)address, (void)bytes;
    *ret_peer = fake_peer((int)label);
    return TUTTI_OK;
}

static inline void fake_close(tutti_endpoint *endpoint)
{
    (void)endpoint;
}
