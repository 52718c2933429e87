/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the shm transport share.
 *
 * Each member makes one sealed memfd and every local peer maps it: first the memory that the core asked
 * for, then one inbound ring and some slots per local peer. A ring has one producer and one consumer and needs no
 * read-modify-write: chunks of whole cache lines follow each other, each behind a word that is 0 until
 * the chunk is whole, so that a short message costs one line, which the consumer watches. Positions run
 * freely and are reduced modulo the ring's size, a power of two.
 *
 * What the other side wrote is memory of another process: each word is read once and checked, and
 * one that cannot be ends the stream.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>
#include <tutti/plugin_copy.h>
#include <tutti/plugin_queue.h>

enum {
    SHM_PAGE = 4096,
    SHM_LINE = 64,
    SHM_LOCAL_MAX = 4096,
    SHM_RINGS_BYTES = 8 << 20, /* room for one member's inbound rings together … */
    SHM_RING_MIN = 16 << 10,   /* … within these bounds for each */
    SHM_RING_MAX = 4 << 20,
    SHM_RING_LEAST = 1 << 20, /* of such room, or twice an L2 if that is more */
    SHM_WHOLE = 7 << 10,      /* of a message in one chunk; a longer one goes … */
    SHM_PIECES = 8,           /* … in so many pieces, within these bounds for each */
    SHM_PIECE_MIN = 4 << 10,
    SHM_PIECE_MAX = 64 << 10,
    SHM_PIECES_LEAST = 4,        /* 64 KiB: 4.4 us near, 10.8 us far; in eight 4.5 and 12.1 */
    SHM_PAIR_PIECES = 16,        /* of the longest second message of a pair */
    SHM_POPULATE_MAX = 64 << 10, /* the kernel maps as much around a page that is read */
    SHM_ALIGN_FROM = 1024, /* payloads from here on begin at a line, behind that of the word */
    SHM_SLOT_BYTES = 16 << 10,
    SHM_SLOTS_EACH = 16, /* of two peers, that each has at first, at most */
    SHM_PAIR_MAX = SHM_PAIR_PIECES * SHM_SLOT_BYTES,
    /* Lines of a pair's chunks beside the payloads: one for the length, and two for each other chunk. */
    SHM_PAIR_LINES = 1 + 2 * (1 + SHM_PAIR_PIECES),
};

/* ---- requests ------------------------------------------------------------------------------ */

/* The plugin's part of a request (tutti_request.opaque). */
struct __attribute__((may_alias)) shm_request {
    tutti_request_place place; /* first */
    uint8_t *data;
    uint64_t bytes; /* to send; capacity of a receive */
    uint64_t total; /* of a message in pieces that is under way; else 0 */
    uint64_t moved; /* of total */
};
_Static_assert(sizeof(struct shm_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

static inline struct shm_request *shm_of(tutti_request *request)
{
    return (struct shm_request *)request->opaque;
}

/* ---- rings --------------------------------------------------------------------------------- */

/* The words that the consumer of a ring writes for its producer. Lines that different sides write
 * are 128 bytes apart, because processors fetch lines in pairs. */
struct shm_control {
    alignas(128) _Atomic uint64_t head; /* bytes ever read and given back */
    _Atomic uint32_t producer_waits; /* set before the producer sleeps, cleared by the consumer */
    /* Of each of the owner's inbound rings. Only in the control that the owner has for itself, which has no ring. */
    _Atomic uint64_t ring_bytes;
};

struct shm_outlet { /* the producer's side */
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t size;
    uint64_t whole_max; /* shm_whole_max() */
    uint64_t tail;      /* bytes ever written */
    uint64_t head_seen;
    /* The words of all lines from tail to here are 0; the first time around, they have memory, too. */
    uint64_t clear;
    bool held; /* chunks were written whose first word is not: the consumer does not see them */
    uint64_t held_at, held_word;
    tutti_copy copy;
};

struct shm_inlet { /* the consumer's side */
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t size;
    uint64_t whole_max; /* shm_whole_max() */
    uint64_t head;      /* bytes ever read */
    uint64_t published; /* of it, given back to the producer */
};

static inline uint64_t shm_round(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* The longest payload of one chunk: at most a quarter of the ring, so that both sides copy at the same time
 * and a waiting producer is always near enough to room (shm_stream.c). */
static inline uint64_t shm_piece_max(uint64_t ring_bytes)
{
    return ring_bytes / 4 < SHM_PIECE_MAX ? ring_bytes / 4 : SHM_PIECE_MAX;
}

/* The longest message that goes as one chunk; kept for each message to find. */
static inline uint64_t shm_whole_max(uint64_t ring_bytes)
{
    return ring_bytes / 4 < SHM_WHOLE ? ring_bytes / 4 : SHM_WHOLE;
}

/* Rounded up. */
static inline uint64_t shm_divide(uint64_t bytes, uint64_t by)
{
    return (bytes + by - 1) / by;
}

/* The length of each of so many pieces of `bytes`, in whole lines; the last one may be some lines shorter. */
static inline uint64_t shm_even_piece(uint64_t bytes, uint64_t pieces)
{
    return shm_round(shm_divide(bytes, pieces), SHM_LINE);
}

/* The pieces of a longer one: small enough for the consumer to begin soon, and to have little left to do
 * when the producer is through; large enough that what each costs besides does not count. */
static inline uint64_t shm_piece_of(uint64_t ring_bytes, uint64_t message)
{
    const uint64_t least = shm_divide(message, shm_piece_max(ring_bytes));
    const uint64_t slots = shm_divide(message, SHM_SLOT_BYTES);
    uint64_t pieces = message / SHM_PIECE_MIN;

    if (pieces > SHM_PIECES_LEAST)
        pieces = SHM_PIECES_LEAST;
    if (pieces < slots)
        pieces = slots < SHM_PIECES ? slots : SHM_PIECES;
    return shm_even_piece(message, pieces < least ? least : pieces);
}

/* The next piece in a slot, of a message of which so much is left. */
static inline uint64_t shm_slot_piece(uint64_t left)
{
    return shm_even_piece(left, shm_divide(left, SHM_SLOT_BYTES));
}

/* Bytes from a chunk's begin to its payload: the word, or a line, so that long payloads lie on
 * lines, too (memcpy to a misaligned target is several times slower). */
static inline uint64_t shm_lead_bytes(uint64_t payload)
{
    return payload < SHM_ALIGN_FROM ? sizeof(uint64_t) : SHM_LINE;
}

/* The bytes of a chunk, without the line behind it. */
static inline uint64_t shm_chunk_bytes(uint64_t payload)
{
    return shm_round(shm_lead_bytes(payload) + payload, SHM_LINE);
}

/* The payload of a chunk that takes as much room as a pair. */
static inline uint64_t shm_pair_payload(uint64_t head, uint64_t body)
{
    return head + body + SHM_PAIR_LINES * SHM_LINE;
}

/* Whether two messages may be a pair: both are in an empty ring at once, the second in SHM_PAIR_PIECES at most. */
static inline bool shm_may_be_pair(uint64_t ring_bytes, uint64_t head, uint64_t body)
{
    return body && body <= SHM_PAIR_MAX && body <= SHM_PAIR_PIECES * shm_piece_max(ring_bytes) &&
           head <= shm_whole_max(ring_bytes) &&
           shm_chunk_bytes(shm_pair_payload(head, body)) + SHM_LINE <= ring_bytes;
}

/* The room for each of so many local peers' rings, which is the same for all members. */
uint64_t shm_ring_room(uint32_t local_peers);
/* How much of such room this member's inbound rings have. */
uint64_t shm_ring_bytes(uint64_t room);
/* Gives memory to pages before they are touched. Where the kernel cannot do it, or has none, they are left to faults. */
void shm_give_memory(uint8_t *from, uint64_t bytes);

/* The word of a chunk at a position of a ring. */
static inline _Atomic uint64_t *shm_word_at(uint8_t *bytes, uint64_t size, uint64_t position)
{
    return (_Atomic uint64_t *)(void *)(bytes + (position & (size - 1)));
}

enum shm_room { SHM_FULL, SHM_ROOM, SHM_CORRUPT };

/* Whether a chunk of `payload` bytes can be written now. CORRUPT: the consumer's index cannot be.
 */
enum shm_room shm_outlet_room(struct shm_outlet *outlet, uint64_t payload);
/* Writes a chunk, whose payload has two parts; needs room. The consumer sees it after the next publish. */
void shm_outlet_put(struct shm_outlet *outlet, uint64_t word, const void *head, uint64_t head_bytes,
                    const void *body, uint64_t body_bytes);
/* The same with one part, whose copy the caller has begun, and ends. */
void shm_outlet_put_piece(struct shm_outlet *outlet, uint64_t word, const void *data,
                          uint64_t bytes, tutti_copy_turn turn);
/* False when there was nothing to show. */
bool shm_outlet_publish(struct shm_outlet *outlet);
/* The word of the next chunk; 0: there is none yet. */
uint64_t shm_inlet_word(const struct shm_inlet *inlet);
/* Where the payload of the chunk at the head is, of which `bytes` is at most a piece. */
static inline tutti_shown shm_inlet_place(const struct shm_inlet *inlet, uint64_t bytes)
{
    const uint64_t start = inlet->head + shm_lead_bytes(bytes);
    const uint64_t place = start & (inlet->size - 1), first = inlet->size - place;

    return bytes <= first ? (tutti_shown){.data = inlet->bytes + place, .bytes = bytes}
                          : (tutti_shown){inlet->bytes + place, first, inlet->bytes, bytes - first};
}
/* Copies the payload of the chunk at the head, of which `bytes` is at most a piece, by streaming or by plain stores. */
void shm_inlet_read(const struct shm_inlet *inlet, bool streams, void *to, uint64_t bytes);

/* ---- slots (shm_slots.c) ------------------------------------------------------------------- */

struct shm_slots {     /* of one peer, as this member sees them */
    uint8_t *bytes[2]; /* those that were the lower member's at first, and the higher one's */
    uint32_t each;     /* how many */
    uint32_t count;    /* this member's own, in stack */
    uint64_t own, has_memory; /* a bit for each slot */
    uint8_t stack[2 * SHM_SLOTS_EACH];
};
_Static_assert(2 * SHM_SLOTS_EACH <= 64, "a bit for each");

/* How many slots each of a pair brings. */
uint32_t shm_slots_each(uint64_t ring_bytes);
void shm_slots_begin(struct shm_slots *slots, uint8_t *of_lower, uint8_t *of_higher, uint32_t each,
                     bool lower);
/* Whether the peer may name the slot: there is such a one, and it is not this member's. */
bool shm_slots_may_give(const struct shm_slots *slots, uint64_t slot);
/* The peer has named the slot: it is this member's now. False: it may not. */
bool shm_slots_give(struct shm_slots *slots, uint64_t slot);
uint8_t *shm_slots_at(const struct shm_slots *slots, uint32_t slot);
/* One of this member's own, of which there must be one: where to write, and what to name to the peer. */
uint8_t *shm_slots_take(struct shm_slots *slots, uint32_t *ret_slot);

/* ---- reading (shm_read.c) ------------------------------------------------------------------ */

/* Copies as 1, 2 or 4 parts at once. The source begins at a line. */
void shm_read(unsigned parts, uint8_t *to, const uint8_t *from, uint64_t bytes);

/* What pieces from the slots of one peer have cost. */
struct shm_reads {
    uint32_t count;     /* of pieces that were long enough for four parts */
    uint32_t two, four; /* ticks of such a piece in so many parts; 0: not known */
};

/* Copies a piece from a slot, as many parts at once as is fastest. */
void shm_read_slot(struct shm_reads *reads, uint8_t *to, const uint8_t *slot, uint64_t bytes);

/* ---- objects ------------------------------------------------------------------------------- */

struct tutti_map {
    tutti_endpoint *endpoint;
    tutti_map *next; /* all maps of the endpoint */
    tutti_host_mates *local;
    tutti_exchange *exchange; /* NULL once the descriptors are here */
    tutti_peer **peers;
    uint32_t count, self_index;
    uint64_t core_bytes, segment_bytes, ring_room;
    uint64_t *ring_bytes; /* of each member's inbound rings */
    int own_fd;
    uint8_t *region; /* one reservation that holds every member's mapping */
    uint64_t region_bytes;
    uint8_t **bases;
    int32_t *descriptors; /* where the exchange puts the members' segments */
    tutti_status status;  /* of the exchange, once it is over */
    uint32_t users;       /* the core, and each peer whose rings lie here */
};

struct tutti_peer {
    tutti_endpoint *endpoint;
    tutti_peer *next, *previous; /* all peers of the endpoint */
    tutti_map *map;              /* whose rings are used; NULL: not mapped yet */
    uint32_t index;              /* of the local peer there */
    bool broken;                 /* the local peer wrote what cannot be */
    bool cut;      /* a message to the local peer was cancelled half-way: nothing can follow it */
    uint64_t skip; /* bytes of a message that nobody wants any more */
    bool shows;    /* the core takes messages without posting receives */
    uint64_t shown_bytes; /* of the message that it looks at */
    struct shm_outlet out;
    struct shm_inlet in;
    struct shm_slots slots;
    struct shm_reads reads;
    tutti_request_queue sends, receives;
};

struct tutti_endpoint {
    const tutti_host *host;
    void *host_self;
    int32_t rank;
    tutti_peer *peers;
    tutti_map *maps;
    tutti_request_queue done; /* complete, not yet reported */
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

/* Gives the host the message of a failure and returns `status`. */
tutti_status shm_error(tutti_endpoint *endpoint, tutti_status status, int32_t system_errno,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- shm_stream.c: messages through rings -------------------------------------------------- */

void shm_stream_send(tutti_peer *peer);    /* as many queued sends as there is room for */
void shm_stream_receive(tutti_peer *peer); /* as many posted receives as there are bytes for */
void shm_stream_publish(tutti_peer *peer); /* shows the local peer what was written */
/* Before sleeping: whether the local peer did anything since the last look that a request waits for. Asks
 * the local peer to wake us when it frees space that a send waits for. */
bool shm_stream_pending(tutti_peer *peer);
/* Writes a whole short message, in two parts, if there is room and nothing waits before it; `more`: the next
 * message will publish it. */
bool shm_stream_send_now(tutti_peer *peer, const void *head, uint64_t head_bytes, const void *body,
                         uint64_t body_bytes, bool more);
/* Writes a message that is one chunk and any other one behind it, if there is room for all of both and nothing waits. */
bool shm_stream_send_pair(tutti_peer *peer, const void *head, uint64_t head_bytes, const void *body,
                          uint64_t body_bytes);
/* The next whole message, while no receive is posted: tutti_transport_ops.show, take and take_pair. */
tutti_status shm_stream_show(tutti_peer *peer, tutti_shown *ret_message);
void shm_stream_take(tutti_peer *peer);
bool shm_stream_take_pair(tutti_peer *peer, void *to, uint64_t bytes);
/* The request's bytes are not wanted or not there any more; it was taken out of its queue. */
void shm_stream_forget(tutti_peer *peer, const struct shm_request *r, bool sending);

/* ---- shm_map.c ----------------------------------------------------------------------------- */

tutti_status shm_map_start(tutti_endpoint *endpoint, tutti_host_mates *local,
                           tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                           uint64_t bytes, tutti_map **ret_map);
tutti_status shm_map_test(tutti_endpoint *endpoint, tutti_map *map, void **ret_bases);
void shm_map_close(tutti_endpoint *endpoint, tutti_map *map);
/* The peer is about to be freed: leaves its rings; the last user of a map unmaps it. */
void shm_map_leave(tutti_peer *peer);
/* Frees what the core has not closed. */
void shm_map_close_all(tutti_endpoint *endpoint);
