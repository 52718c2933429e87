/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs that the files of core/p2p share and nobody else sees.
 *
 * Memory that a transport holds belongs to a packet (out) or an incoming (in). Both may outlive the
 * operation that they serve (`op` is NULL then), never the other way round. A failing path is only
 * marked where the failure is found; p2p_progress() takes it apart when no other work is under way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tutti/plugin_copy.h>

#include "base/chain.h"
#include "p2p/p2p.h"
#include "p2p/p2p_pool.h"
#include "p2p/p2p_wire.h"

/* ---- lists through members of their elements: a ring whose head is a link, too ---- */

#define P2P_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void p2p_link_init(struct p2p_link *link)
{
    link->prev = link->next = link;
}

static inline bool p2p_link_alone(const struct p2p_link *link)
{
    return link->next == link;
}

static inline void p2p_link_append(struct p2p_link *list, struct p2p_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

/* Leaves `link` alone, so that taking it out twice does no harm. */
static inline void p2p_link_remove(struct p2p_link *link)
{
    link->prev->next = link->next; /* NOLINT: lists are closed, so there is always a neighbour */
    link->next->prev = link->prev;
    p2p_link_init(link);
}

/* The element behind `link` in the list; NULL: none is. */
#define P2P_AFTER(list, link, type, member)                                                        \
    ((link)->next == (list) ? NULL : P2P_OF((link)->next, type, member))
#define P2P_FIRST(list, type, member) P2P_AFTER(list, list, type, member)

/* A loop over the elements, whose body may take `item` out of the list. */
#define P2P_EACH(item, list, type, member)                                                         \
    for (type *item = P2P_FIRST(list, type, member), *item##_next;                                 \
         item && (item##_next = P2P_AFTER(list, &item->member, type, member), true);               \
         item = item##_next)

/* ---- limits and states ---- */

/* P2P_PAIR_MAX is a quarter of the window, so that credit comes back before it ends. */
enum {
    P2P_LANE = 0,
    P2P_ENVELOPES_MAX = 1 << 20, /* a process */
    P2P_WINDOW_MAX =
        4 * P2P_PAIR_MAX, /* bytes of eager payload that a peer may have unreceived here */
    P2P_WINDOWS_TOTAL = 64 << 20,
    /* Sends up to this are copied, also where the transport can cancel: a full transport holds no memory of the
     * caller. So the end of a group cuts off no connection because of them, which groups made from it use, too. */
    P2P_COPY_MAX = 8 << 10,
    P2P_PIECES_MAX = 4,      /* of large payloads, that a path has given to its transport */
    P2P_PIECE_MAX = 64 << 20 /* bytes of one, for plugins that ask for long ones */
};

enum p2p_op_state {
    OP_COMPLETE,
    OP_POSTED,        /* receive: in the bin `held_by` */
    OP_ARRIVING,      /* receive: an incoming names it, or the envelope `held_by` */
    OP_WAITING_DATA,  /* receive: granted, `id` is its own, `peer_id` the send's */
    OP_READING,       /* receive: in engine->placed; `peer_id` is the send's */
    OP_HELPING,       /* send: the same, while there are pieces to take */
    OP_EAGER,         /* send: the packet has header and payload */
    OP_WAITING_GRANT, /* send: `id` is its own; a collective's is in the bin `held_by` */
    OP_STREAM,        /* send: in path->streams until all is issued; `peer_id` is the receive's */
    OP_OFFERED,       /* receive: met an offer, `peer_id` is the send's */
    OP_AGREED,        /* receive: the sender is told so, `id` is its own */
    OP_MOVING,        /* both: an engine moves it */
    OP_BARE,          /* receive: met a request, and has no buffer yet */
    OP_GRANTED,       /* send: granted, and has no buffer yet; `peer_id` is the receive's */
    OP_SELF           /* send to oneself: the envelope `held_by` waits for its receive */
};

enum p2p_space { SPACE_USER, SPACE_COLLECTIVE, SPACE_READY };

/* ---- what a transport holds ---- */

enum p2p_io_kind { IO_HEADER_IN, IO_PAYLOAD_IN, IO_HEADER_OUT, IO_PAYLOAD_OUT };

struct p2p_io {
    tutti_request request;
    struct p2p_path *path;
    struct p2p_link link; /* in path->held while the transport has it, then in engine->ready */
    uint8_t kind;
    bool held;
};

enum p2p_packet_stage { PACKET_QUEUED, PACKET_HEADER_GIVEN, PACKET_GIVEN };

struct p2p_packet {
    struct p2p_io head, body;
    struct p2p_link link; /* in path->queue, then in path->issued */
    struct p2p_header header;
    struct p2p_op *op;   /* whose payload or request this is; NULL: nobody's any more */
    const uint8_t *data; /* NULL: no payload */
    struct p2p_buffer *buffer;
    uint8_t stage;
    uint8_t outstanding;
    bool direct; /* the transport gets the caller's memory */
    uint8_t wire[P2P_HEADER_BYTES];
};

struct p2p_incoming {
    struct p2p_io io;
    struct p2p_link link; /* in path->incoming */
    struct p2p_op *op;    /* the receive that gets it; or */
    struct p2p_envelope *envelope;
    struct p2p_buffer *buffer; /* NULL: straight into the caller's memory */
    uint8_t *data;
    uint64_t bytes;
    uint64_t offset;
    bool charged; /* counts against the sender's credit */
};

enum p2p_envelope_state {
    ENVELOPE_ARRIVING, /* an incoming fills the buffer */
    ENVELOPE_ARRIVED,
    ENVELOPE_WAITING, /* request or early grant: there is no payload yet */
    ENVELOPE_BROKEN,  /* the path failed before the payload had arrived */
    ENVELOPE_SELF     /* of a send to oneself, `op`, which still has the payload */
};

/* A header that nobody waited for. */
struct p2p_envelope {
    struct p2p_link by_source; /* in its bin, or in engine->orphans */
    struct p2p_link by_tag;    /* in the any-source bin */
    struct p2p_bin *source_bin, *tag_bin;
    struct p2p_header header;
    struct p2p_path *path;
    struct p2p_op *op; /* matched while its payload still arrives; SELF: the send */
    struct p2p_buffer *buffer;
    uint8_t state;
    bool dropped; /* ARRIVING for nobody */
};

/* ---- tables ---- */

struct p2p_bin {
    struct p2p_bin *next;
    uint64_t tag;
    int32_t source;
    uint8_t space;
    struct p2p_link posted;  /* operations, by `queue` */
    struct p2p_link arrived; /* envelopes; by `by_tag` when source is P2P_ANY_SOURCE */
};

struct p2p_table {
    struct p2p_bin **slots;
    size_t mask;
    size_t count;
    struct p2p_op *only; /* posted while there is no bin, and in none */
    int32_t only_source; /* as it was posted */
};

struct p2p_transfer {
    struct p2p_op *op;
    uint32_t generation;
    uint32_t next_free;
};

/* ---- the engine's parts ---- */

struct p2p_endpoint {
    struct p2p_endpoint *next;
    const tutti_transport_ops *ops;
    tutti_endpoint *endpoint;
    struct p2p_link paths;
    uint64_t piece_bytes;
    bool can_cancel;
    bool shows;        /* short messages: see p2p_short.c */
    uint64_t pair_max; /* a payload that leaves in one call with its header; 0: none does */
};

struct p2p_path {
    struct p2p_engine *engine;
    struct p2p_endpoint *at; /* NULL: the way to oneself, which has a window and nothing else */
    tutti_peer *peer;
    struct p2p_link link;     /* in endpoint->paths */
    struct p2p_link blocked;  /* in engine->blocked */
    struct p2p_link gathered; /* in engine->gathered: packets queue until p2p_release() */
    struct p2p_link failing;  /* in engine->failing */
    int label_rank;
    tutti_status failed;
    bool mute; /* the peer takes nothing any more; what it had sent is still received */
    uint64_t arrived;
    bool peer_shows;                       /* the peer's transport does, too, as it has said */
    bool greeted;                          /* the peer has been told that this side's does */
    const struct p2p_short_message *shown; /* that is being delivered, if its payload is in it */
    char message[480];

    uint32_t window;
    uint32_t eager_max;   /* a message that needs no grant, whatever the transport */
    uint32_t unasked_max; /* the longest that may come without one */
    uint32_t credit;      /* what may still be sent eagerly */
    uint32_t owed;        /* taken in here, not told yet */
    uint32_t peer_used;   /* what the peer has spent of its credit */
    uint64_t met;         /* user messages of the path that receives have met */
    bool credit_queued;

    struct p2p_link queue;   /* packets in the order of the wire; headers before pieces */
    struct p2p_link issued;  /* packets that the transport has */
    struct p2p_link streams; /* granted sends that have more to issue */
    unsigned pieces;

    struct p2p_link held;     /* ios */
    struct p2p_link incoming; /* payloads under way */
    struct p2p_incoming *unposted;
    bool header_wanted;
    struct p2p_io header;
    uint8_t wire[P2P_HEADER_BYTES];
};

/* Stays for the engine's life, so that late messages of a freed group are told from early ones. */
struct p2p_group_name {
    struct p2p_group_name *next;
    uint32_t id;
    struct p2p_group *group; /* NULL: freed */
};

struct p2p_group {
    struct p2p_engine *engine;
    struct p2p_group_name *name;
    struct p2p_link link; /* in engine->groups */
    const struct p2p_events *events;
    void *user;
    struct p2p_table table;
    struct p2p_link ops;
    uint64_t order;
    uint32_t id;
    int rank, size;
    tutti_status failed;
    uint64_t uncached_bytes; /* see p2p_group_tell_uncached() */
    bool has_bare;           /* see p2p_group_tell_bare() */
    struct p2p_path *paths[];
};

/* Whether the buffer of a receive that has met its message does not stay in a cache. */
static inline bool p2p_is_uncached(const struct p2p_op *receive)
{
    return receive->capacity >= receive->group->uncached_bytes;
}

enum { P2P_NAME_SLOTS = 256 };

struct p2p_engine {
    struct chain memory; /* endpoints, paths, and names of groups */
    struct p2p_endpoint *endpoints;
    unsigned endpoint_count;
    struct p2p_path self;
    struct p2p_link groups;
    struct p2p_group_name *names[P2P_NAME_SLOTS];
    struct p2p_link ready;    /* ios that are complete */
    bool passed_over;         /* the transports were not asked the last time */
    struct p2p_link blocked;  /* paths with something to try again */
    struct p2p_link gathered; /* paths that send at p2p_release() */
    bool gathers;             /* between p2p_gather() and p2p_release() */
    struct p2p_link failing;  /* paths to take apart */
    struct p2p_link placed;   /* operations that copy from place to place */
    tutti_copy copy;          /* into memory of receivers */
    struct p2p_link finished; /* operations whose `done` is to be called */
    struct p2p_link orphans;  /* envelopes of groups that do not exist yet */
    bool adopting;            /* a group was made that orphans may wait for */
    uint32_t envelopes;
    uint64_t begun; /* see p2p_begun() */
    struct p2p_transfer *transfers;
    uint32_t transfer_count, free_first, free_last;
    struct p2p_pool packets, incomings, envelope_pool, bins;
    struct p2p_buffers buffers;
};
