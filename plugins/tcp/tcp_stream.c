/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over one connection: each is its length (64 bits, little-endian), then its bytes.
 *
 * Sending gathers what is queued into one sendmsg; a short message that says another follows at
 * once is copied and waits for it, so that a header and its payload cost one system call, and the
 * messages of a batch hardly more.
 *
 * Receiving reads straight into the posted buffer once a message's length is known, and behind it
 * into the peer's inbound bytes, so that many short messages cost one system call. With no receive
 * posted no more than the inbound bytes are read: that is what holds back a sender.
 *
 * Both move a bounded number of bytes per turn of progress, so that the two directions and the
 * peers take turns: what is on its way then still lies in a cache when it is read.
 */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void note_unread(tutti_peer *peer)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (peer->unread || !endpoint->host->channel_has_unread(peer->source.channel))
        return;
    peer->unread = true;
    peer->next_unread = endpoint->unread;
    endpoint->unread = peer;
}

void tcp_stream_receive_unread(tutti_endpoint *endpoint)
{
    tutti_peer *peer = endpoint->unread;

    endpoint->unread = NULL;
    while (peer) {
        tutti_peer *next = peer->next_unread;

        peer->unread = false;
        tcp_stream_receive(peer);
        peer = next;
    }
}

void tcp_stream_watch(tutti_peer *peer)
{
    bool can_read =
        peer->receives.first || peer->skip || peer->tail - peer->head < TCP_INBOUND_BYTES;
    bool can_write =
        (peer->held && peer->endpoint->held != peer) || (peer->sends.first && !peer->cut);
    tutti_endpoint *endpoint = peer->endpoint;

    peer->wanted = (can_read ? EPOLLIN : 0u) | (can_write ? EPOLLOUT : 0u);
    if (peer->state != TCP_READY)
        return;
    const uint32_t watched = peer->source.events | peer->wanted;
    if (peer->source.channel && can_read)
        note_unread(peer);
    if (!tcp_watch(endpoint, &peer->source, watched)) {
        tcp_connect_lose(peer, errno, "cannot watch the connection with");
    } else if (watched != peer->wanted && !peer->unwatched) {
        peer->unwatched = true;
        peer->next_unwatched = endpoint->unwatched;
        endpoint->unwatched = peer;
    }
}

void tcp_stream_unwatch(tutti_endpoint *endpoint)
{
    while (endpoint->unwatched) {
        tutti_peer *peer = endpoint->unwatched;

        endpoint->unwatched = peer->next_unwatched;
        peer->unwatched = false;
        if (peer->state == TCP_READY && !tcp_watch(endpoint, &peer->source, peer->wanted))
            tcp_connect_lose(peer, errno, "cannot watch the connection with");
    }
}

/* ---- sending ------------------------------------------------------------------------------- */

enum { FRAME = 8 };

bool tcp_stream_hold(tutti_peer *peer, const void *data, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (peer->state != TCP_READY || peer->sends.first || peer->held_sent || bytes > TCP_HELD_MAX ||
        peer->held + FRAME + bytes > TCP_HELD_BYTES)
        return false;
    if (endpoint->held && endpoint->held != peer)
        tcp_stream_send(endpoint->held); /* only one peer's next message is waited for */
    tcp_put(peer->held_bytes + peer->held, bytes, FRAME);
    if (bytes)
        memcpy(peer->held_bytes + peer->held + FRAME, data, bytes);
    peer->held += (uint32_t)(FRAME + bytes);
    endpoint->held = peer;
    endpoint->sent_messages++;
    return true;
}

static int add_piece(struct iovec *pieces, int count, const void *data, uint64_t bytes,
                     uint64_t *left)
{
    uint64_t taken = least(bytes, *left);

    if (taken == 0)
        return count;
    pieces[count] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = taken};
    *left -= taken;
    return count + 1;
}

static int gather(tutti_peer *peer, struct iovec *pieces)
{
    uint64_t left = TCP_BURST_BYTES;
    int count = add_piece(pieces, 0, peer->held_bytes + peer->held_sent,
                          peer->held - peer->held_sent, &left);

    for (tutti_request *request = peer->sends.first;
         request && !peer->cut && left && count + 2 <= TCP_GATHER;
         request = tutti_queue_place(request)->next) {
        struct tcp_request *r = tcp_of(request);
        uint64_t framed = least(r->moved, FRAME);

        count = add_piece(pieces, count, (uint8_t *)&r->frame + framed, FRAME - framed, &left);
        count = add_piece(pieces, count, r->data + (r->moved - framed),
                          r->bytes - (r->moved - framed), &left);
    }
    return count;
}

/* `bytes` of what gather() found are gone. */
static void account(tutti_peer *peer, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;
    uint64_t held = least(bytes, peer->held - peer->held_sent);

    endpoint->sent_bytes += bytes;
    peer->turn_bytes += bytes;
    peer->held_sent += (uint32_t)held;
    if (peer->held_sent == peer->held)
        peer->held = peer->held_sent = 0;
    bytes -= held;
    while (peer->sends.first && !peer->held && !peer->cut) {
        tutti_request *request = peer->sends.first;
        struct tcp_request *r = tcp_of(request);
        uint64_t moved = least(bytes, FRAME + r->bytes - r->moved);

        r->moved += moved;
        bytes -= moved;
        if (r->moved < FRAME + r->bytes)
            return;
        endpoint->sent_messages++;
        tutti_queue_finish(&endpoint->done, request, TUTTI_OK, r->bytes);
    }
}

bool tcp_stream_may_send(tutti_peer *peer)
{
    if (peer->turn != peer->endpoint->turn) {
        peer->turn = peer->endpoint->turn;
        peer->turn_bytes = 0;
    }
    return peer->turn_bytes < TCP_TURN_BYTES;
}

static ssize_t send_pieces(tutti_peer *peer, struct iovec *pieces, size_t count)
{
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t sent;

    if (peer->source.channel)
        return tcp_link_send(peer, pieces, count);
    do
        sent = count == 1
                   ? send(peer->source.fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL)
                   : sendmsg(peer->source.fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

void tcp_stream_send(tutti_peer *peer)
{
    struct iovec pieces[TCP_GATHER];

    if (peer->state != TCP_READY)
        return;
    if (peer->endpoint->held == peer)
        peer->endpoint->held = NULL;
    const size_t count = (size_t)gather(peer, pieces);
    if (count) {
        const ssize_t sent = send_pieces(peer, pieces, count);

        if (sent >= 0)
            account(peer, (uint64_t)sent);
        else if (errno != EAGAIN)
            tcp_connect_deafen(peer, errno, "cannot send to");
    }
    tcp_stream_watch(peer);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void complete_receive(tutti_peer *peer)
{
    tutti_request *request = peer->receives.first;

    peer->receiving = false;
    peer->endpoint->received_messages++;
    tutti_queue_finish(&peer->endpoint->done, request, TUTTI_OK, tcp_of(request)->bytes);
}

/* Reads the length of the next message for the first posted receive. */
static void begin_message(tutti_peer *peer)
{
    tutti_request *request = peer->receives.first;
    struct tcp_request *r = tcp_of(request);
    uint64_t length = tcp_get(peer->inbound + peer->head, FRAME);

    peer->head += FRAME;
    if (length <= r->bytes) {
        r->bytes = length;
        peer->receiving = true;
        return;
    }
    peer->skip = length;
    tutti_queue_finish(&peer->endpoint->done, request,
                       tcp_error(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
                                 "%s sent %llu bytes where at most %llu were expected", peer->name,
                                 (unsigned long long)length, (unsigned long long)r->bytes),
                       0);
}

static uint32_t inbound_used(const tutti_peer *peer)
{
    return peer->tail - peer->head;
}

void tcp_stream_consume(tutti_peer *peer)
{
    for (;;) {
        if (peer->skip) {
            uint32_t skipped = (uint32_t)least(peer->skip, inbound_used(peer));

            peer->head += skipped;
            peer->skip -= skipped;
        }
        if (peer->skip || !peer->receives.first)
            break;
        if (!peer->receiving) {
            if (inbound_used(peer) < FRAME)
                break;
            begin_message(peer);
            continue;
        }
        struct tcp_request *r = tcp_of(peer->receives.first);
        uint32_t piece = (uint32_t)least(r->bytes - r->moved, inbound_used(peer));

        if (piece)
            memcpy(r->data + r->moved, peer->inbound + peer->head, piece);
        peer->head += piece;
        r->moved += piece;
        if (r->moved < r->bytes)
            break;
        complete_receive(peer);
    }
    if (peer->head == peer->tail)
        peer->head = peer->tail = 0;
}

/* Finds the room for the next bytes: ret_pieces[0] in the posted buffer, [1] in the inbound bytes;
 * either may be empty. */
static void find_room(tutti_peer *peer, struct iovec ret_pieces[2])
{
    ret_pieces[0] = ret_pieces[1] = (struct iovec){0};
    if (peer->receiving) {
        /* All inbound bytes have gone to this receive already. */
        struct tcp_request *r = tcp_of(peer->receives.first);
        uint64_t rest = r->bytes - r->moved;

        ret_pieces[0].iov_base = r->data + r->moved;
        ret_pieces[0].iov_len = least(rest, TCP_TURN_BYTES);
        if (rest > TCP_TURN_BYTES)
            return;
    }
    if (peer->head && peer->tail > TCP_INBOUND_BYTES / 2) {
        memmove(peer->inbound, peer->inbound + peer->head, inbound_used(peer));
        peer->tail -= peer->head;
        peer->head = 0;
    }
    ret_pieces[1].iov_base = peer->inbound + peer->tail;
    ret_pieces[1].iov_len = TCP_INBOUND_BYTES - peer->tail;
}

static ssize_t receive_pieces(tutti_peer *peer, const struct iovec pieces[2])
{
    ssize_t got;

    if (peer->source.channel)
        return tcp_link_receive(peer, pieces);
    do
        got = pieces[0].iov_len ? readv(peer->source.fd, pieces, 2)
                                : recv(peer->source.fd, pieces[1].iov_base, pieces[1].iov_len, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

/* One read; true when there may be more. */
static bool receive_once(tutti_peer *peer)
{
    struct iovec pieces[2];

    find_room(peer, pieces);
    size_t direct = pieces[0].iov_len, room = direct + pieces[1].iov_len;
    if (room == 0)
        return false;
    const ssize_t got = receive_pieces(peer, pieces);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0) {
        const int error = got < 0 ? errno : 0;

        tcp_connect_lose(peer, error,
                         error == EBADMSG ? "TLS cannot decrypt what came from"
                         : error          ? "lost the connection with"
                                          : "the connection was closed by");
        return false;
    }
    peer->endpoint->received_bytes += (uint64_t)got;
    if (direct) {
        struct tcp_request *r = tcp_of(peer->receives.first);
        size_t here = least((uint64_t)got, direct);

        r->moved += here;
        peer->tail += (uint32_t)((size_t)got - here);
        if (r->moved == r->bytes)
            complete_receive(peer);
    } else {
        peer->tail += (uint32_t)got;
    }
    tcp_stream_consume(peer);
    return (size_t)got == room;
}

void tcp_stream_receive(tutti_peer *peer)
{
    uint64_t before = peer->endpoint->received_bytes;

    while (peer->state == TCP_READY && receive_once(peer) &&
           peer->endpoint->received_bytes - before < TCP_TURN_BYTES)
        ;
    tcp_stream_watch(peer);
}

/* ---- cancelling ---------------------------------------------------------------------------- */

void tcp_stream_forget(tutti_peer *peer, tutti_request *request)
{
    struct tcp_request *r = tcp_of(request);

    /* A channel may have taken it whole. */
    if (r->place.queue == &peer->sends && (r->moved || peer->source.channel)) {
        peer->cut = true;
    } else if (peer->receiving && request == peer->receives.first) {
        peer->skip = r->bytes - r->moved;
        peer->receiving = false;
    }
}
