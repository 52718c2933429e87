/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through a pair of rings.
 *
 * A message is a frame (its length, 64 bits, then padding for long payloads) and the payload
 * rounded up to 8 bytes. One that does not fit streams through in pieces: the producer writes what
 * there is room for, the consumer copies it to the user's buffer and gives the room back a quarter
 * of the ring at a time, so that a short message costs no store to the producer's line.
 *
 * Why nobody is left waiting for room: a producer stops only when less than a frame is free, so at
 * least three quarters of the ring are unread, and reading them gives some back.
 */
#include "shm.h"

#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void wake(tutti_peer *peer)
{
    tutti_endpoint *endpoint = peer->endpoint;

    endpoint->host->wake_mate(endpoint->host_self, peer->map->mates, peer->index);
}

static void fail_all(tutti_peer *peer, struct shm_queue *queue)
{
    while (queue->first)
        shm_finish(peer->endpoint, queue->first, TUTTI_ERR_INTERNAL, 0);
}

static void break_stream(tutti_peer *peer, const char *what)
{
    peer->broken = true;
    peer->skip = 0;
    shm_error(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
              "host-mate %u wrote %s that cannot be into shared memory: its memory is corrupt",
              peer->index, what);
    fail_all(peer, &peer->sends);
    fail_all(peer, &peer->receives);
}

/* ---- sending ------------------------------------------------------------------------------- */

void shm_stream_publish(tutti_peer *peer)
{
    struct shm_outlet *out = &peer->out;

    if (out->published == out->tail)
        return;
    out->published = out->tail;
    atomic_store_explicit(&out->control->tail, out->tail, memory_order_release);
    wake(peer);
}

static void write_frame(tutti_peer *peer, uint64_t payload)
{
    struct shm_outlet *out = &peer->out;

    shm_outlet_write(out, out->tail, &payload, sizeof payload);
    out->tail += shm_frame_bytes(out->tail, payload);
    peer->endpoint->mapped_bytes += sizeof payload;
}

static void write_payload(tutti_peer *peer, const void *data, uint64_t bytes)
{
    struct shm_outlet *out = &peer->out;

    if (bytes == 0)
        return;
    shm_outlet_write(out, out->tail, data, bytes);
    out->tail += shm_round(bytes, 8);
    peer->endpoint->mapped_bytes += bytes;
}

bool shm_stream_send_now(tutti_peer *peer, const void *data, uint64_t bytes, bool more)
{
    struct shm_outlet *out = &peer->out;

    if (peer->sends.first || bytes > SHM_PIECE)
        return false;
    uint64_t wanted = shm_frame_bytes(out->tail, bytes) + shm_round(bytes, 8);
    uint64_t space = shm_outlet_space(out, wanted);
    if (space < wanted || space > out->size)
        return false; /* queued; an impossible index is dealt with there */
    write_frame(peer, bytes);
    write_payload(peer, data, bytes);
    peer->endpoint->sent_messages++;
    if (!more)
        shm_stream_publish(peer);
    return true;
}

/* False when there is no room now. */
static bool send_frame(tutti_peer *peer, struct shm_request *r)
{
    uint64_t wanted = shm_frame_bytes(peer->out.tail, r->bytes);
    uint64_t space = shm_outlet_space(&peer->out, wanted);

    if (space > peer->out.size) {
        break_stream(peer, "a read index");
        return false;
    }
    if (space < wanted)
        return false;
    write_frame(peer, r->bytes);
    r->framed = 1;
    r->total = r->bytes;
    return true;
}

/* Writes the payload in pieces; false when there is no room for the rest now. */
static bool send_payload(tutti_peer *peer, struct shm_request *r)
{
    struct shm_outlet *out = &peer->out;

    while (r->moved < r->total) {
        uint64_t rest = r->total - r->moved;
        uint64_t space = shm_outlet_space(out, least(shm_round(rest, 8), SHM_PIECE));

        if (space > out->size) {
            break_stream(peer, "a read index");
            return false;
        }
        if (space == 0)
            return false;
        uint64_t piece = least(least(rest, space), SHM_PIECE);
        write_payload(peer, r->data + r->moved, piece);
        r->moved += piece;
        shm_stream_publish(peer);
    }
    shm_stream_publish(peer); /* an empty message is only a frame */
    return true;
}

void shm_stream_send(tutti_peer *peer)
{
    while (peer->sends.first && !peer->cut) {
        tutti_request *request = peer->sends.first;
        struct shm_request *r = shm_of(request);

        if ((!r->framed && !send_frame(peer, r)) || !send_payload(peer, r)) {
            shm_stream_publish(peer);
            return;
        }
        peer->endpoint->sent_messages++;
        shm_finish(peer->endpoint, request, TUTTI_OK, r->bytes);
    }
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void take(tutti_peer *peer, uint64_t bytes)
{
    struct shm_inlet *in = &peer->in;

    in->head += bytes;
    if (in->head - in->published < in->size / 4)
        return;
    in->published = in->head;
    atomic_store_explicit(&in->control->head, in->head, memory_order_release);
    /* Pairs with the fence in shm_stream_pending(): the producer sees the room, or we see that it
     * waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&in->control->producer_waits, memory_order_relaxed)) {
        atomic_store_explicit(&in->control->producer_waits, 0, memory_order_relaxed);
        wake(peer);
    }
}

/* Bytes to read now, at least `wanted` if there are as many; 0 also after the stream has broken. */
static uint64_t filled(tutti_peer *peer, uint64_t wanted)
{
    uint64_t bytes = shm_inlet_filled(&peer->in, wanted);

    if (bytes <= peer->in.size)
        return bytes;
    break_stream(peer, "a write index");
    return 0;
}

/* False when more bytes must come first. */
static bool skip(tutti_peer *peer)
{
    while (peer->skip) {
        uint64_t bytes = least(filled(peer, 1), peer->skip);

        if (bytes == 0)
            return false;
        peer->skip -= bytes;
        take(peer, bytes);
    }
    return true;
}

/* False when there is no frame yet, or the message under it cannot be received. */
static bool receive_frame(tutti_peer *peer, tutti_request *request)
{
    struct shm_request *r = shm_of(request);
    uint64_t length;

    if (filled(peer, sizeof length) < sizeof length)
        return false;
    shm_inlet_read(&peer->in, &length, sizeof length);
    if (length > INT64_MAX) {
        break_stream(peer, "a message length");
        return false;
    }
    uint64_t bytes = shm_frame_bytes(peer->in.head, length);
    if (filled(peer, bytes) < bytes)
        return false;
    take(peer, bytes);
    r->framed = 1;
    r->total = length;
    if (length <= r->bytes)
        return true;
    peer->skip = shm_round(length, 8);
    shm_finish(peer->endpoint, request,
               shm_error(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
                         "host-mate %u sent %llu bytes where at most %llu were expected",
                         peer->index, (unsigned long long)length, (unsigned long long)r->bytes),
               0);
    return false;
}

static bool receive_payload(tutti_peer *peer, struct shm_request *r)
{
    while (r->moved < r->total) {
        uint64_t rest = r->total - r->moved;
        uint64_t piece =
            least(least(filled(peer, shm_round(least(rest, SHM_PIECE), 8)), rest), SHM_PIECE);

        if (piece == 0)
            return false;
        shm_inlet_read(&peer->in, r->data + r->moved, piece);
        r->moved += piece;
        take(peer, shm_round(piece, 8));
    }
    return true;
}

void shm_stream_receive(tutti_peer *peer)
{
    while (skip(peer) && peer->receives.first) {
        tutti_request *request = peer->receives.first;
        struct shm_request *r = shm_of(request);

        if (!r->framed && !receive_frame(peer, request)) {
            if (peer->skip)
                continue; /* the next message may be there already */
            return;
        }
        if (!receive_payload(peer, r))
            return;
        peer->endpoint->received_messages++;
        shm_finish(peer->endpoint, request, TUTTI_OK, r->total);
    }
}

/* ---- sleeping, cancelling ------------------------------------------------------------------ */

bool shm_stream_pending(tutti_peer *peer)
{
    shm_stream_publish(peer);
    if (peer->sends.first && !peer->cut) {
        atomic_store_explicit(&peer->out.control->producer_waits, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&peer->out.control->head, memory_order_relaxed) !=
            peer->out.head_seen)
            return true;
    }
    return (peer->receives.first || peer->skip) &&
           atomic_load_explicit(&peer->in.control->tail, memory_order_relaxed) !=
               peer->in.tail_seen;
}

void shm_stream_forget(tutti_peer *peer, const struct shm_request *r, bool sending)
{
    if (!r->framed)
        return;
    if (sending)
        peer->cut = true;
    else
        peer->skip = shm_round(r->total - r->moved, 8);
}
