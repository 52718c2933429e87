/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short messages, over transports that show what has arrived (tutti_transport_ops.show).
 *
 * Header and payload go as one message of the transport, and without a request: a send is complete when the
 * transport has taken it, and a message is matched where it lies, and copied once. No header is ever posted
 * there. What is too long, or finds the transport full, goes as everywhere else: the header as a message of
 * its own, the payload behind it into a receive that is posted for it; meanwhile nothing is shown. Over a transport
 * that carries pairs, these two messages need no requests either, up to P2P_PAIR_MAX. What is longer than P2P_EAGER_MAX
 * needs no grant only if it leaves so, at once.
 *
 * A peer takes header and payload as one message once it has said that its transport shows, too: each header
 * does (p2p_header.shows). A member that hears of a peer to which it has sent nothing answers at
 * once.
 */

#include "base/error.h"
#include "p2p/p2p_parts.h"

enum { SHOWN_IN_A_ROW = 64 /* of one path, before others are looked at */ };

/* ---- out ---- */

/* 0: the peer understands nothing but a whole header of its own. */
static uint32_t encode(const struct p2p_path *path, const struct p2p_header *header, uint8_t *wire)
{
    if (path->peer_shows)
        return p2p_wire_encode_short(header, wire);
    if (p2p_wire_payload(header))
        return 0;
    p2p_wire_encode(header, wire);
    return P2P_HEADER_BYTES;
}

/* The header as a message, and behind it the payload. */
static __attribute__((noinline)) bool send_pair(struct p2p_path *path, struct p2p_header *header,
                                                const void *data, uint64_t payload)
{
    const struct p2p_endpoint *at = path->at;
    uint8_t wire[P2P_HEADER_BYTES];

    if (payload > at->pair_max)
        return false;
    header->shows = true;
    header->credit = path->owed;
    p2p_wire_encode(header, wire);
    if (at->ops->send_pair(at->endpoint, path->peer, P2P_LANE, wire, sizeof wire, data, payload))
        return false;
    p2p_flow_told(path, header);
    return true;
}

inline bool p2p_short_send(struct p2p_path *path, struct p2p_header *header, const void *data)
{
    const struct p2p_endpoint *at = path->at;
    const uint64_t payload = p2p_wire_payload(header);
    uint8_t wire[P2P_HEADER_BYTES];

    if (!at->shows)
        return false;
    if (payload > at->ops->short_bytes - P2P_HEADER_BYTES)
        return send_pair(path, header, data, payload);
    header->shows = true;
    header->credit = path->owed;

    const uint32_t bytes = encode(path, header, wire);
    if (!bytes ||
        at->ops->send_short(at->endpoint, path->peer, P2P_LANE, wire, bytes, data, payload))
        return false;
    p2p_flow_told(path, header);
    return true;
}

/* ---- in ---- */

void p2p_short_copy_parts(const tutti_shown *message, uint64_t offset, void *to, uint64_t bytes)
{
    const uint64_t here = offset < message->bytes ? message->bytes - offset : 0;
    const uint64_t first = bytes < here ? bytes : here;

    if (first)
        tutti_copy_plain(to, (const uint8_t *)message->data + offset, first);
    if (bytes > first)
        tutti_copy_plain((uint8_t *)to + first,
                         (const uint8_t *)message->rest + (offset + first - message->bytes),
                         bytes - first);
}

tutti_status p2p_short_show(const struct p2p_path *path, struct p2p_short_message *ret_message)
{
    const tutti_shown *shown = &ret_message->shown;
    uint8_t wire[P2P_HEADER_BYTES];
    tutti_status status =
        path->at->ops->show(path->at->endpoint, path->peer, P2P_LANE, &ret_message->shown);

    if (status)
        return status;
    ret_message->size = shown->bytes + shown->rest_bytes;
    if (shown->bytes >= P2P_COMPACT_BYTES &&
        p2p_wire_decode_compact(shown->data, ret_message->size, &ret_message->header)) {
        ret_message->header_bytes = P2P_COMPACT_BYTES;
        ret_message->wrong = NULL;
        return TUTTI_OK;
    }
    p2p_short_copy(shown, 0, wire,
                   ret_message->size < sizeof wire ? ret_message->size : sizeof wire);
    ret_message->wrong =
        p2p_wire_decode(wire, ret_message->size, &ret_message->header, &ret_message->header_bytes);
    return TUTTI_OK;
}

bool p2p_short_expect(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                      struct p2p_envelope *envelope)
{
    struct p2p_buffers *buffers = &path->engine->buffers;
    const uint64_t bytes = header->bytes;
    const bool charged = header->kind != P2P_DATA;
    const uint64_t offset = charged ? 0 : header->tag;

    path->arrived++;
    if (envelope) {
        envelope->buffer = p2p_buffer_take(buffers, bytes);
        if (!envelope->buffer)
            return p2p_flow_no_room(path, bytes);
        p2p_short_copy(&path->shown->shown, path->shown->header_bytes, envelope->buffer->data,
                       bytes);
        envelope->state = ENVELOPE_ARRIVED;
        return true;
    }
    if (op)
        p2p_short_copy(&path->shown->shown, path->shown->header_bytes,
                       (uint8_t *)op->buffer + offset, bytes);
    p2p_flow_taken_in(path, op, offset, bytes, charged);
    return true;
}

/* Tells a peer to which nothing was sent yet that this side's transport shows. */
static void greet(struct p2p_path *path)
{
    struct p2p_header header = {.kind = P2P_CREDIT};

    path->greeted = true;
    if (!path->failed && !path->mute)
        (void)p2p_short_send(path, &header, NULL); /* else the next header tells */
}

static void deliver(struct p2p_path *path, const struct p2p_short_message *message)
{
    p2p_deliver(path, &message->header, message->wrong,
                message->size > message->header_bytes ? message : NULL);
    if (!path->greeted)
        greet(path);
}

/* The transport shows nothing any more, or what is no header; for its own words, if it had any since `number`. */
static void end(struct p2p_path *path, tutti_status status, uint64_t number)
{
    const char *why = error_since(number) ? error_message() : tutti_status_string(status);

    if (status == TUTTI_ERR_BUSY) {
        status = TUTTI_ERR_INTERNAL;
        why = "what it sent is no message of tutti";
    }
    p2p_path_fail(path, status, "cannot receive from rank %d: %s", path->label_rank, why);
}

/* A path that has failed goes on, so that its transport is never left with something that nobody takes. */
unsigned p2p_short_look(struct p2p_path *path)
{
    const uint64_t said = error_number();
    tutti_status status = TUTTI_OK;
    unsigned count = 0;

    while (count < SHOWN_IN_A_ROW && p2p_link_alone(&path->incoming)) {
        struct p2p_short_message message;

        status = p2p_short_show(path, &message);
        if (status)
            break;
        if (!path->failed)
            deliver(path, &message);
        path->at->ops->take(path->at->endpoint, path->peer, P2P_LANE);
        p2p_flow_receive(path);
        count++;
    }
    if (status && status != TUTTI_ERR_NOT_READY && !path->failed)
        end(path, status, said);
    return count;
}

unsigned p2p_short_look_all(struct p2p_engine *engine)
{
    unsigned count = 0;

    for (struct p2p_endpoint *at = engine->endpoints; at; at = at->next)
        if (at->shows)
            P2P_EACH(path, &at->paths, struct p2p_path, link)
                count += p2p_short_look(path);
    return count;
}
