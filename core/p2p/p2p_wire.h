/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 64-byte header that precedes every payload and is a message of its own otherwise, in little
 * endian:
 *
 *    0 mark  1 kind  2 operation  3 flags      4 group      8 source     12 credit
 *   16 id   20 root, memory                   24 bytes     32 tag, sequence, offset or other id
 *   40 signature, place             48 count    56 dtype, claim    58 sizes      60 op
 *
 * operation, flags, root, signature, count, dtype, sizes and op are the announce record of a collective; dtype is
 * told without its lanes, which are 1. memory, place and claim are those of a user's request whose payload lies in
 * registered memory, or of an answer to it. The flags of a user's request say whether an engine can move its
 * bytes. All of these are zero in all other kinds. `credit` is piggybacked on every kind. The highest bit of kind says
 * that the sender's transport shows messages (tutti_transport_ops.show): to it, header and payload may go as one
 * message. Then a user message has a header of 24 bytes, of the kind P2P_COMPACT, if it
 * is short, so that with its payload it fits into a cache line:
 *
 *    0 mark  1 kind  2 zero                    4 group      8 source     12 credit      16 tag
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tutti/status.h>

#include "base/call.h"
#include "p2p/p2p.h"

enum {
    P2P_HEADER_BYTES = 64,
    P2P_COMPACT_BYTES = 24,
    P2P_COMPACT_MAX =
        512, /* longer payloads begin at a cache line, as the transport's memory does */
    P2P_KIND_SHOWS = 0x80
};

enum { P2P_MARK = 0xb7 };

enum p2p_kind {
    P2P_MESSAGE = 1, /* user message, tag; its payload of `bytes` follows */
    P2P_REQUEST, /* user message, tag; `bytes` wait for a grant of `id`, or to be copied from its place */
    P2P_COLLECTIVE,         /* announce; payload of `bytes` follows */
    P2P_COLLECTIVE_REQUEST, /* announce; `bytes` wait for a grant of `id` or were granted early */
    P2P_READY,              /* early grant: a receive of `bytes`, sequence, waits as `id` */
    P2P_GRANT,              /* the send `id` may stream to the receive `tag` */
    P2P_REFUSE,             /* the send `id` matched a receive of another size: drop it */
    P2P_DATA,               /* a piece of `bytes` at offset `tag` of the receive `id` follows */
    P2P_CREDIT,             /* nothing but `credit` */
    P2P_ANNOUNCE,           /* announce, without a message: an engine does it, or it waits */
    P2P_ANSWER,             /* announce of the call that a P2P_ANNOUNCE asked about */
    P2P_WITHDRAW,           /* the send `id`, tag, which has not heard of a grant, is taken back */
    P2P_TAKEN,              /* the send `id` was copied from its place */
    P2P_HELP,               /* the send `id` may be copied to this place, too */
    P2P_COMPACT,            /* a P2P_MESSAGE in a short header; on the wire alone */
    P2P_AGREE, /* the receive `tag` has met the send `id`, and an engine can move its bytes */
    P2P_MOVE,  /* the receive `id`, which has agreed: engines move it behind those before it */
    P2P_KIND_END
};

struct p2p_header {
    uint8_t kind;
    bool shows; /* the sender's transport shows messages */
    uint32_t group;
    uint32_t source; /* the sender's rank in the group */
    uint32_t credit; /* bytes of eager payload that the sender of this header has taken in */
    uint32_t id;
    uint64_t bytes;
    uint64_t tag;
    bool moves;               /* of a P2P_REQUEST: an engine can move its bytes where they lie */
    struct p2p_place place;   /* of a P2P_REQUEST or P2P_HELP; memory 0: nowhere */
    struct announce announce; /* of the collective kinds; sequence is `tag` */
};

void p2p_wire_encode(const struct p2p_header *header, uint8_t ret_wire[P2P_HEADER_BYTES]);
/* As it precedes a payload in the same message: compact if it can be. Its length. */
uint32_t p2p_wire_encode_short(const struct p2p_header *header, uint8_t ret_wire[P2P_HEADER_BYTES]);

/*
 * The header of a message of `size` bytes, of which the first P2P_HEADER_BYTES, or all, are in `wire`; its
 * length. NULL, or why it makes no sense by itself (static words); what depends on the receiver's
 * state is checked where it is used.
 */
const char *p2p_wire_decode(const uint8_t *wire, uint64_t size, struct p2p_header *ret_header,
                            uint32_t *ret_bytes);

/*
 * The compact header of a message of `size` bytes, at least P2P_COMPACT_BYTES. Reads no byte twice, so `wire` may be
 * memory that the sender can still write to. False: it is another header, or makes no sense. Leaves those
 * fields as they are that a user message has not.
 */
static inline bool p2p_wire_decode_compact(const uint8_t *wire, uint64_t size,
                                           struct p2p_header *header)
{
    uint32_t words[P2P_COMPACT_BYTES / sizeof(uint32_t)];

    memcpy(words, wire, sizeof words);
    if (le32toh(words[0]) != (P2P_MARK | (uint32_t)(P2P_COMPACT | P2P_KIND_SHOWS) << 8))
        return false;
    header->kind = P2P_MESSAGE;
    header->shows = true;
    header->group = le32toh(words[1]);
    header->source = le32toh(words[2]);
    header->credit = le32toh(words[3]);
    header->id = 0;
    header->bytes = size - P2P_COMPACT_BYTES;
    header->tag = le32toh(words[4]) | (uint64_t)le32toh(words[5]) << 32;
    return true;
}

/* Bytes that follow this header as a message of their own; 0: none. */
uint64_t p2p_wire_payload(const struct p2p_header *header);
