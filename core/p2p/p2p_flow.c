/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path sends and receives.
 *
 * Headers go out in the order in which operations were started and never wait for credit: credit
 * bounds the payload that a peer must take in without having asked for it. A message that fits into
 * what is left of it travels with its header (eager), any other is requested and streams when it
 * was granted, in pieces, behind the headers that queue at that time. So two sides that are
 * both out of credit still hear of each other's messages, and nobody can be made to
 * keep more than the window of each peer.
 *
 * On the way in, a header receive is always posted, after the payload receive of the header before
 * it. The caller's memory is given to the transport only when it can cancel; else everything
 * goes through buffers of the core.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_parts.h"

/* ---- out ---- */

static void io_init(struct p2p_io *io, struct p2p_path *path, uint8_t kind)
{
    io->path = path;
    io->kind = kind;
    io->held = false;
    io->request = (tutti_request){.status = TUTTI_ERR_NOT_READY, .user = io};
    p2p_link_init(&io->link);
}

bool p2p_packet_queue(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                      const void *data)
{
    struct p2p_packet *packet = p2p_pool_take(&path->engine->packets);

    if (!packet)
        return false;
    packet->header = *header;
    packet->op = op;
    packet->data = p2p_wire_payload(header) ? data : NULL;
    packet->buffer = NULL;
    packet->stage = PACKET_QUEUED;
    packet->outstanding = 0;
    packet->direct = path->at->can_cancel && header->bytes > P2P_COPY_MAX;
    io_init(&packet->head, path, IO_HEADER_OUT);
    io_init(&packet->body, path, IO_PAYLOAD_OUT);
    if (op)
        op->packet = packet;
    p2p_link_append(&path->queue, &packet->link);
    return true;
}

void p2p_packet_free(struct p2p_packet *packet)
{
    struct p2p_engine *engine = packet->head.path->engine;

    p2p_link_remove(&packet->link);
    if (packet->op && packet->op->packet == packet)
        packet->op->packet = NULL;
    p2p_buffer_give(&engine->buffers, packet->buffer);
    p2p_pool_give(&engine->packets, packet);
}

/* Takes back a packet of which nothing was given to the transport. */
void p2p_packet_drop(struct p2p_packet *packet)
{
    struct p2p_path *path = packet->head.path;

    if (packet->header.kind == P2P_MESSAGE || packet->header.kind == P2P_COLLECTIVE)
        path->credit += (uint32_t)packet->header.bytes;
    else if (packet->header.kind == P2P_DATA)
        path->pieces--;
    p2p_packet_free(packet);
}

/* Moves the payload into memory of the core, so that the caller's is not needed any more. */
bool p2p_packet_copy(struct p2p_packet *packet)
{
    if (packet->data && !packet->buffer) {
        packet->buffer = p2p_buffer_take(&packet->head.path->engine->buffers, packet->header.bytes);
        if (!packet->buffer)
            return false;
        memcpy(packet->buffer->data, packet->data, packet->header.bytes);
        packet->data = packet->buffer->data;
        packet->direct = false;
    }
    return true;
}

/* A request was taken by the transport. */
static void io_taken(struct p2p_io *io)
{
    io->held = io->request.status == TUTTI_ERR_NOT_READY;
    p2p_link_append(io->held ? &io->path->held : &io->path->engine->ready, &io->link);
}

/* Nothing can be sent any more, for `message`. That a peer is gone ends the path only when the receives
 * have ended too: what it sent before may lie unread in the transport. */
static void mute(struct p2p_path *path, tutti_status status, const char *what, const char *message)
{
    if (status == TUTTI_ERR_PEER_LOST)
        path->mute = true;
    else
        p2p_path_fail(path, status, "%s rank %d: %s", what, path->label_rank, message);
}

/* The path is tried again by the next p2p_progress(). */
static void block(struct p2p_path *path)
{
    if (p2p_link_alone(&path->blocked))
        p2p_link_append(&path->engine->blocked, &path->blocked);
}

/* The transport is full, or does not go on: for its own words, if it had any since `number`. False. */
static bool refused(struct p2p_io *io, tutti_status status, uint64_t number)
{
    struct p2p_path *path = io->path;

    if (status == TUTTI_ERR_BUSY) {
        block(path);
        return false;
    }
    const char *why = error_since(number) ? error_message() : tutti_status_string(status);
    if (io->kind == IO_HEADER_IN || io->kind == IO_PAYLOAD_IN)
        p2p_path_fail(path, status, "cannot receive from rank %d: %s", path->label_rank, why);
    else
        mute(path, status, "cannot send to", why);
    return false;
}

/* True when the transport took it. */
static bool give_out(struct p2p_packet *packet, struct p2p_io *io, const void *data, uint64_t bytes,
                     uint32_t flags)
{
    struct p2p_path *path = io->path;
    const uint64_t said = error_number();
    tutti_status status = path->at->ops->isend(path->at->endpoint, path->peer, P2P_LANE, data,
                                               bytes, flags, &io->request);

    if (status != TUTTI_OK)
        return refused(io, status, said);
    packet->outstanding++;
    io_taken(io);
    return true;
}

static bool give_header(struct p2p_packet *packet, uint32_t more)
{
    struct p2p_path *path = packet->head.path;

    packet->header.credit = path->owed;
    packet->header.shows = path->at->shows;
    p2p_wire_encode(&packet->header, packet->wire);
    if (!give_out(packet, &packet->head, packet->wire, P2P_HEADER_BYTES,
                  packet->data ? TUTTI_SEND_MORE : more))
        return false;
    p2p_flow_told(path, &packet->header);
    packet->stage = PACKET_HEADER_GIVEN;
    return true;
}

/*
 * A packet of it has left. The send completes only now, though the payload may be out of the
 * caller's memory earlier: after a send a caller may compute for long, and no thread would move
 * what is still here.
 */
void p2p_flow_moved(struct p2p_op *op, uint64_t bytes)
{
    op->moved += bytes;
    if (op->moved == op->capacity)
        p2p_op_complete(op, TUTTI_OK);
}

/* What waits for an answer is in no packet any more. */
static bool is_request(const struct p2p_header *header)
{
    return header->kind == P2P_REQUEST || header->kind == P2P_COLLECTIVE_REQUEST;
}

/* True when it has left as a short message. */
static bool leaves_at_once(struct p2p_packet *packet)
{
    struct p2p_path *path = packet->head.path;
    struct p2p_op *op = is_request(&packet->header) ? NULL : packet->op;
    const uint64_t bytes = packet->header.bytes;

    if (packet->stage != PACKET_QUEUED || !p2p_short_send(path, &packet->header, packet->data))
        return false;
    path->pieces -= packet->header.kind == P2P_DATA;
    p2p_packet_free(packet);
    if (op)
        p2p_flow_moved(op, bytes);
    return true;
}

static uint64_t piece_of(const struct p2p_path *path, const struct p2p_op *op)
{
    const uint64_t left = op->capacity - op->issued;

    return left < path->at->piece_bytes ? left : path->at->piece_bytes;
}

/* The first granted send whose next piece may leave; NULL: none, or not yet. */
static struct p2p_op *next_stream(struct p2p_path *path)
{
    if (path->pieces == P2P_PIECES_MAX)
        return NULL;
    P2P_EACH(op, &path->streams, struct p2p_op, queue) {
        if (!op->may_read || op->may_read(op, op->issued + piece_of(path, op)))
            return op;
        block(path);
    }
    return NULL;
}

/* Whether the transport is told that the next packet follows, so that both are one system call, and wake the peer once:
 * where sends leave together, and behind a request that was granted early, whose first piece can leave. */
static bool goes_with_next(struct p2p_path *path, const struct p2p_packet *packet)
{
    if (packet->link.next != &path->queue)
        return path->engine->gathers;
    return is_request(&packet->header) && packet->op && next_stream(path) == packet->op;
}

/* True when the whole packet was taken. */
static bool give_packet(struct p2p_packet *packet)
{
    struct p2p_path *path = packet->head.path;
    struct p2p_op *op = packet->op;

    if (leaves_at_once(packet))
        return true;

    const uint32_t more = goes_with_next(path, packet) ? TUTTI_SEND_MORE : 0;
    if (!packet->direct && !p2p_packet_copy(packet)) {
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to send to rank %d", path->label_rank);
        return false;
    }
    if (packet->stage == PACKET_QUEUED && !give_header(packet, more))
        return false;
    if (packet->data && !give_out(packet, &packet->body, packet->data, packet->header.bytes, more))
        return false;
    packet->stage = PACKET_GIVEN;
    p2p_link_remove(&packet->link);
    p2p_link_append(&path->issued, &packet->link);
    if (op) {
        if (op->packet == packet)
            op->packet = NULL;
        if (is_request(&packet->header))
            packet->op = NULL;
    }
    return true;
}

/* The next piece of a granted send. */
static struct p2p_packet *next_piece(struct p2p_path *path)
{
    struct p2p_op *op = next_stream(path);

    if (!op)
        return NULL;

    struct p2p_header header = {.kind = P2P_DATA,
                                .group = op->group->id,
                                .source = (uint32_t)op->group->rank,
                                .id = op->peer_id,
                                .bytes = piece_of(path, op),
                                .tag = op->issued};

    if (!p2p_packet_queue(path, &header, op, (const uint8_t *)op->buffer + op->issued)) {
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to send to rank %d", path->label_rank);
        return NULL;
    }
    op->issued += header.bytes;
    if (op->issued == op->capacity)
        p2p_link_remove(&op->queue);
    path->pieces++;
    return P2P_FIRST(&path->queue, struct p2p_packet, link);
}

unsigned p2p_flow_send(struct p2p_path *path)
{
    unsigned given = 0;

    while (!path->failed && !path->mute) {
        struct p2p_packet *packet = P2P_FIRST(&path->queue, struct p2p_packet, link);

        if (!packet && !(packet = next_piece(path)))
            break;
        if (!give_packet(packet))
            break;
        given++;
    }
    return given;
}

void p2p_flow_stream(struct p2p_op *op, uint32_t peer_id)
{
    if (op->held_by)
        p2p_match_withdraw(op);
    if (op->has_id)
        p2p_transfer_free(op->group->engine, op);
    op->peer_id = peer_id;
    op->state = OP_STREAM;
    op->group->engine->begun += op->capacity;
    p2p_link_append(&op->path->streams, &op->queue);
}

/* The peer may have taken it and left before this side looks: then the end of the path is heard first. */
static bool has_left(const struct p2p_packet *packet)
{
    return packet->head.request.status == TUTTI_OK &&
           (!packet->data || packet->body.request.status == TUTTI_OK);
}

/* A header or payload has left; called for each, in any order. */
void p2p_flow_sent(struct p2p_io *io)
{
    struct p2p_path *path = io->path;
    struct p2p_packet *packet = io->kind == IO_HEADER_OUT ? P2P_OF(io, struct p2p_packet, head)
                                                          : P2P_OF(io, struct p2p_packet, body);

    if (io->request.status != TUTTI_OK)
        mute(path, io->request.status, "sending failed to",
             tutti_status_string(io->request.status));
    if (--packet->outstanding > 0 || packet->stage != PACKET_GIVEN)
        return;

    struct p2p_op *op = packet->op;
    uint64_t bytes = packet->header.bytes;
    const bool left = has_left(packet);

    path->pieces -= packet->header.kind == P2P_DATA;
    p2p_packet_free(packet);
    if (op && left)
        p2p_flow_moved(op, bytes);
    p2p_flow_send(path);
}

/* ---- credit ---- */

/* `bytes` of eager payload need no memory here any more. Told with the next header, or by a
 * header of its own when half of the window has come together. */
void p2p_flow_tell_credit(struct p2p_path *path)
{
    static const struct p2p_header credit = {.kind = P2P_CREDIT};

    if (path->failed || path->credit_queued)
        return;
    path->credit_queued = p2p_packet_queue(path, &credit, NULL, NULL);
    p2p_flow_start(path);
}

/* ---- in ---- */

/* Of the receive of a payload. */
static uint32_t flags_of(const struct p2p_incoming *incoming)
{
    const struct p2p_op *op = incoming->buffer ? NULL : incoming->op;

    return op && p2p_is_uncached(op) ? TUTTI_RECEIVE_UNCACHED : 0;
}

static bool give_in(struct p2p_io *io, void *data, uint64_t bytes, uint32_t flags)
{
    struct p2p_path *path = io->path;
    uint8_t kind = io->kind;

    io_init(io, path, kind);
    io->request.flags = flags;

    const uint64_t said = error_number();
    tutti_status status =
        path->at->ops->irecv(path->at->endpoint, path->peer, P2P_LANE, data, bytes, &io->request);
    if (status != TUTTI_OK)
        return refused(io, status, said);
    io_taken(io);
    return true;
}

/* Posts what the path is to receive next: the payload that was announced, then a header. */
unsigned p2p_flow_receive(struct p2p_path *path)
{
    unsigned given = 0;

    if (path->failed)
        return 0;
    if (path->unposted) {
        if (!give_in(&path->unposted->io, path->unposted->data, path->unposted->bytes,
                     flags_of(path->unposted)))
            return 0;
        path->unposted = NULL;
        given++;
    }
    if (path->header_wanted && give_in(&path->header, path->wire, P2P_HEADER_BYTES, 0)) {
        path->header_wanted = false;
        given++;
    }
    return given;
}

/* Lets what is not posted yet arrive in memory of the core. */
bool p2p_incoming_redirect(struct p2p_incoming *incoming)
{
    incoming->buffer = p2p_buffer_take(&incoming->io.path->engine->buffers, incoming->bytes);
    if (!incoming->buffer)
        return false;
    incoming->data = incoming->buffer->data;
    return true;
}

bool p2p_flow_no_room(struct p2p_path *path, uint64_t bytes)
{
    p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to receive %llu bytes from rank %d",
                  (unsigned long long)bytes, path->label_rank);
    return false;
}

/*
 * Prepares for the payload that follows `header`: for `op`, for `envelope`, or for nobody (it is
 * dropped). False when there is no memory; the path has failed then.
 */
bool p2p_flow_expect(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                     struct p2p_envelope *envelope)
{
    if (path->shown)
        return p2p_short_expect(path, header, op, envelope);

    struct p2p_engine *engine = path->engine;
    struct p2p_incoming *incoming = p2p_pool_take(&engine->incomings);

    if (incoming) {
        io_init(&incoming->io, path, IO_PAYLOAD_IN);
        incoming->op = op;
        incoming->envelope = envelope;
        incoming->bytes = header->bytes;
        incoming->offset = header->kind == P2P_DATA ? header->tag : 0;
        incoming->charged = header->kind != P2P_DATA;
        incoming->buffer = NULL;
        if (op && path->at->can_cancel) {
            incoming->data = (uint8_t *)op->buffer + incoming->offset;
        } else if (!p2p_incoming_redirect(incoming)) {
            p2p_pool_give(&engine->incomings, incoming);
            incoming = NULL;
        }
    }
    if (!incoming)
        return p2p_flow_no_room(path, header->bytes);
    p2p_link_append(&path->incoming, &incoming->link);
    path->unposted = incoming;
    return true;
}

void p2p_incoming_free(struct p2p_incoming *incoming)
{
    struct p2p_path *path = incoming->io.path;

    if (path->unposted == incoming)
        path->unposted = NULL;
    p2p_link_remove(&incoming->link);
    p2p_buffer_give(&path->engine->buffers, incoming->buffer);
    p2p_pool_give(&path->engine->incomings, incoming);
}

/* The payload has arrived, or the path has failed. */
void p2p_flow_received(struct p2p_io *io)
{
    struct p2p_incoming *incoming = P2P_OF(io, struct p2p_incoming, io);
    struct p2p_path *path = io->path;
    struct p2p_op *op = incoming->op;

    if (io->request.status != TUTTI_OK || io->request.bytes != incoming->bytes) {
        if (io->request.status != TUTTI_OK)
            p2p_path_fail_receive(path, io->request.status);
        else
            p2p_path_fail(path, TUTTI_ERR_INTERNAL, "rank %d announced %llu bytes and sent %llu",
                          path->label_rank, (unsigned long long)incoming->bytes,
                          (unsigned long long)io->request.bytes);
        if (incoming->envelope)
            p2p_envelope_settle(incoming->envelope, ENVELOPE_BROKEN);
        p2p_incoming_free(incoming);
        return;
    }
    path->arrived++;
    if (incoming->envelope) {
        incoming->envelope->buffer = incoming->buffer;
        incoming->buffer = NULL;
        p2p_envelope_settle(incoming->envelope, ENVELOPE_ARRIVED);
    } else {
        if (op && incoming->buffer)
            tutti_copy_plain((uint8_t *)op->buffer + incoming->offset, incoming->data,
                             incoming->bytes);
        p2p_flow_taken_in(path, op, incoming->offset, incoming->bytes, incoming->charged);
    }
    p2p_incoming_free(incoming);
}
