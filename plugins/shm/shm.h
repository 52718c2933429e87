/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the shm transport share.
 *
 * Each member makes one sealed memfd and every mate maps it: first the memory that the core asked
 * for, then one inbound ring per mate. A ring has one producer and one consumer, so its indices
 * need no read-modify-write. Both run freely and are reduced modulo the ring's size, a power of
 * two. The other side's index is memory that another process writes: it is read once per use, and a
 * value that cannot be is the end of the stream, never an address.
 */
#ifndef TUTTI_SHM_H
#define TUTTI_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

enum {
    SHM_PAGE = 4096,
    SHM_MATES_MAX = 4096,
    SHM_RINGS_BYTES = 8 << 20, /* of one member's inbound rings together … */
    SHM_RING_MIN = 16 << 10,   /* … within these bounds for each */
    SHM_RING_MAX = 256 << 10,
    SHM_PIECE = 64 << 10, /* published at once, so that both sides copy at the same time */
    SHM_ALIGN_FROM = 1024 /* payloads from here on begin at a cache line of the ring */
};

/* ---- requests ------------------------------------------------------------------------------ */

struct shm_queue {
    tutti_request *first, *last;
};

/* What a request holds while it is ours (tutti_request.opaque). */
struct __attribute__((may_alias)) shm_request {
    tutti_request *next, *previous;
    struct shm_queue *queue; /* that it is in; NULL: none */
    tutti_peer *peer;
    uint8_t *data;
    uint64_t bytes; /* to send; capacity of a receive */
    uint64_t total; /* of the message under way, once its frame was written or read */
    uint64_t moved; /* of total */
    uint64_t framed;
};
_Static_assert(sizeof(struct shm_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

static inline struct shm_request *shm_of(tutti_request *request)
{
    return (struct shm_request *)request->opaque;
}

static inline void shm_queue_push(struct shm_queue *queue, tutti_request *request)
{
    struct shm_request *r = shm_of(request);

    r->next = NULL;
    r->previous = queue->last;
    r->queue = queue;
    if (queue->last)
        shm_of(queue->last)->next = request;
    else
        queue->first = request;
    queue->last = request;
}

/* Takes `request` out of the queue that it is in, if any. */
static inline void shm_queue_remove(tutti_request *request)
{
    struct shm_request *r = shm_of(request);
    struct shm_queue *queue = r->queue;

    if (!queue)
        return;
    if (r->previous)
        shm_of(r->previous)->next = r->next;
    else
        queue->first = r->next;
    if (r->next)
        shm_of(r->next)->previous = r->previous;
    else
        queue->last = r->previous;
    r->queue = NULL;
}

/* ---- rings --------------------------------------------------------------------------------- */

/* The shared part of a ring. Lines that different sides write are 128 bytes apart, because
 * processors fetch lines in pairs. */
struct shm_control {
    alignas(128) _Atomic uint64_t tail; /* bytes ever written; the producer's */
    alignas(128) _Atomic uint64_t head; /* bytes ever read; the consumer's */
    _Atomic uint32_t producer_waits; /* set before the producer sleeps, cleared by the consumer */
};

struct shm_outlet { /* the producer's side */
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t size;
    uint64_t tail;      /* written */
    uint64_t published; /* of it, seen by the consumer */
    uint64_t head_seen;
};

struct shm_inlet { /* the consumer's side */
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t size;
    uint64_t head;      /* read */
    uint64_t published; /* of it, given back to the producer */
    uint64_t tail_seen;
};

/* Bytes from the frame's place to the payload's: the length, and padding so that long payloads lie
 * on cache lines (memcpy to a misaligned target is several times slower). */
static inline uint64_t shm_frame_bytes(uint64_t position, uint64_t payload)
{
    return payload < SHM_ALIGN_FROM ? 8 : 8 + (-(position + 8) & 63);
}

static inline uint64_t shm_round(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

uint64_t shm_ring_bytes(uint32_t mates);

/* Free bytes, at least `wanted` if there are as many. UINT64_MAX: the consumer's index cannot be.
 */
uint64_t shm_outlet_space(struct shm_outlet *outlet, uint64_t wanted);
void shm_outlet_write(struct shm_outlet *outlet, uint64_t position, const void *from,
                      uint64_t bytes);
/* Bytes to read, at least `wanted` if there are as many. UINT64_MAX: the producer's index cannot
 * be. */
uint64_t shm_inlet_filled(struct shm_inlet *inlet, uint64_t wanted);
void shm_inlet_read(const struct shm_inlet *inlet, void *to, uint64_t bytes);

/* ---- objects ------------------------------------------------------------------------------- */

struct tutti_map {
    tutti_endpoint *endpoint;
    tutti_map *next; /* all maps of the endpoint */
    tutti_host_mates *mates;
    tutti_exchange *exchange; /* NULL once the descriptors are here */
    tutti_peer **peers;
    uint32_t count, self_index;
    uint64_t core_bytes, segment_bytes, ring_bytes;
    int own_fd;
    uint8_t *region; /* one reservation that holds every member's mapping */
    uint64_t region_bytes;
    uint8_t **bases;
    tutti_status status; /* of the exchange, once it is over */
    uint32_t users;      /* the core, and each peer whose rings lie here */
};

struct tutti_peer {
    tutti_endpoint *endpoint;
    tutti_peer *next, *previous; /* all peers of the endpoint */
    uint64_t label;
    tutti_map *map; /* whose rings are used; NULL: not mapped yet */
    uint32_t index; /* of the mate there */
    bool broken;    /* the mate wrote impossible indices */
    bool cut;       /* a message to the mate was cancelled half-way: nothing can follow it */
    uint64_t skip;  /* bytes of a message that nobody wants any more */
    struct shm_outlet out;
    struct shm_inlet in;
    struct shm_queue sends, receives;
};

struct tutti_endpoint {
    const tutti_host *host;
    void *host_self;
    int32_t rank;
    tutti_peer *peers;
    tutti_map *maps;
    struct shm_queue done; /* complete, not yet reported */
    uint64_t sent_messages, received_messages, mapped_bytes;
};

static inline void *shm_allocate(tutti_endpoint *endpoint, uint64_t bytes)
{
    return endpoint->host->allocate(endpoint->host_self, bytes);
}

static inline void shm_release(tutti_endpoint *endpoint, void *memory)
{
    if (memory)
        endpoint->host->release(endpoint->host_self, memory);
}

/* Gives the host the words of a failure and returns `status`. */
tutti_status shm_error(tutti_endpoint *endpoint, tutti_status status, int32_t system_errno,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Makes the request complete; progress reports it. */
static inline void shm_finish(tutti_endpoint *endpoint, tutti_request *request, tutti_status status,
                              uint64_t bytes)
{
    shm_queue_remove(request);
    request->bytes = bytes;
    request->status = status;
    shm_queue_push(&endpoint->done, request);
}

/* ---- shm_stream.c: messages through rings -------------------------------------------------- */

void shm_stream_send(tutti_peer *peer);    /* as many queued sends as there is room for */
void shm_stream_receive(tutti_peer *peer); /* as many posted receives as there are bytes for */
void shm_stream_publish(tutti_peer *peer); /* shows the mate what was written */
/* Before sleeping: whether the mate did anything since the last look that a request waits for. Asks
 * the mate to wake us when it frees space that a send waits for. */
bool shm_stream_pending(tutti_peer *peer);
/* Writes a whole short message if there is room and nothing waits before it; `more`: the next
 * message will publish it. */
bool shm_stream_send_now(tutti_peer *peer, const void *data, uint64_t bytes, bool more);
/* The request's bytes are not wanted or not there any more; it was taken out of its queue. */
void shm_stream_forget(tutti_peer *peer, const struct shm_request *r, bool sending);

/* ---- shm_map.c ----------------------------------------------------------------------------- */

tutti_status shm_map_start(tutti_endpoint *endpoint, tutti_host_mates *mates,
                           tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                           uint64_t bytes, tutti_map **ret_map);
tutti_status shm_map_test(tutti_endpoint *endpoint, tutti_map *map, void **ret_bases);
void shm_map_close(tutti_endpoint *endpoint, tutti_map *map);
/* The peer is about to be freed: leaves its rings; the last user of a map unmaps it. */
void shm_map_leave(tutti_peer *peer);
/* Frees what the core has not closed. */
void shm_map_close_all(tutti_endpoint *endpoint);

#endif
