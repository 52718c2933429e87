/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through a pair of rings.
 *
 * A short message is one chunk. A longer one is a chunk that says its length and
 * then one chunk for each piece, which holds it or names the slot where it lies: the producer writes while
 * there is room, the consumer copies to the user's buffer meanwhile and gives the room back a quarter of the
 * ring at a time, so that short messages cost no store to the producer's line. Streaming stores go through the
 * ring, as slots are for lines that are in a cache.
 *
 * A pair is a short message and a longer one behind it, written in one go if there is room for all, and read in one go:
 * nothing is taken before all is read, so a consumer whose producer stands still in the middle goes on by a request.
 *
 * Why nobody is left waiting for room: a producer stops only when a quarter of the ring and a few
 * lines are not free, so well over a quarter is unread, and reading it gives some back.
 */
#include "shm.h"

#include <string.h>

/* The two low bits of a chunk's word; the others are a number of bytes. */
enum {
    WHOLE = 1,   /* a message, or a piece of the one under way */
    IN_SLOT = 2, /* such a piece; from bit SLOT_SHIFT on the number of bytes is the slot's number */
    LENGTH = 3,  /* of a message that comes in pieces */
    SLOT_SHIFT = 32
};

static const uint64_t message_max = UINT64_C(1) << 56;

enum { FETCHED = 32 * SHM_LINE };

static uint64_t make_word(uint64_t bytes, unsigned kind)
{
    return bytes << 2 | kind;
}

static void wake(tutti_peer *peer)
{
    tutti_endpoint *endpoint = peer->endpoint;

    endpoint->host->wake_mate(endpoint->host_self, peer->map->local, peer->index);
}

static void fail_all(tutti_peer *peer, tutti_request_queue *queue)
{
    while (queue->first)
        tutti_queue_finish(&peer->endpoint->done, queue->first, TUTTI_ERR_INTERNAL, 0);
}

static void break_stream(tutti_peer *peer, const char *what)
{
    peer->broken = true;
    peer->skip = 0;
    shm_error(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
              "local peer %u wrote %s that is not valid into shared memory, which is corrupt",
              peer->index, what);
    fail_all(peer, &peer->sends);
    fail_all(peer, &peer->receives);
}

/* ---- sending ------------------------------------------------------------------------------- */

void shm_stream_publish(tutti_peer *peer)
{
    if (shm_outlet_publish(&peer->out))
        wake(peer);
}

static void put(tutti_peer *peer, uint64_t word, const void *payload, uint64_t bytes)
{
    shm_outlet_put(&peer->out, word, NULL, 0, payload, bytes);
    peer->endpoint->mapped_bytes += sizeof word + bytes;
}

/* False, too, when the stream has broken. */
static bool has_room(tutti_peer *peer, uint64_t payload)
{
    enum shm_room room = shm_outlet_room(&peer->out, payload);

    if (room == SHM_CORRUPT)
        break_stream(peer, "a read index");
    return room == SHM_ROOM;
}

bool shm_stream_send_now(tutti_peer *peer, const void *head, uint64_t head_bytes, const void *body,
                         uint64_t body_bytes, bool more)
{
    const uint64_t bytes = head_bytes + body_bytes;

    if (peer->sends.first || bytes > peer->out.whole_max || !has_room(peer, bytes))
        return false;
    shm_outlet_put(&peer->out, make_word(bytes, WHOLE), head, head_bytes, body, body_bytes);
    peer->endpoint->mapped_bytes += sizeof(uint64_t) + bytes;
    peer->endpoint->sent_messages++;
    if (!more)
        shm_stream_publish(peer);
    return true;
}

/* Writes the next piece of a request's message, at most `most` bytes, and shows it; needs room for that. Returns how
 * many. */
static uint64_t put_piece(tutti_peer *peer, const struct shm_request *r, uint64_t most)
{
    const uint8_t *data = r->data + r->moved;
    const tutti_copy_turn turn = tutti_copy_begin(&peer->out.copy, most);
    uint64_t bytes = most;
    uint32_t slot;

    if (peer->slots.count && r->total <= 2 * peer->slots.each * SHM_SLOT_BYTES && !turn.streams) {
        if (most > SHM_SLOT_BYTES)
            bytes = shm_slot_piece(r->total - r->moved);
        tutti_copy_plain(shm_slots_take(&peer->slots, &slot), data, bytes);
        put(peer, make_word((uint64_t)slot << SLOT_SHIFT | bytes, IN_SLOT), NULL, 0);
    } else {
        shm_outlet_put_piece(&peer->out, make_word(bytes, WHOLE), data, bytes, turn);
        peer->endpoint->mapped_bytes += sizeof(uint64_t);
    }
    tutti_copy_end(&peer->out.copy, turn, bytes);
    peer->endpoint->mapped_bytes += bytes;
    shm_stream_publish(peer);
    return bytes;
}

/* Writes the pieces that there is room for; true when those were the last. */
static bool send_pieces(tutti_peer *peer, struct shm_request *r)
{
    const uint64_t piece_max = shm_piece_of(peer->out.size, r->total);

    while (r->moved < r->total) {
        uint64_t rest = r->total - r->moved, piece = rest < piece_max ? rest : piece_max;

        if (!has_room(peer, piece))
            return false;
        r->moved += put_piece(peer, r, piece);
    }
    return true;
}

bool shm_stream_send_pair(tutti_peer *peer, const void *head, uint64_t head_bytes, const void *body,
                          uint64_t body_bytes)
{
    struct shm_request r = {.data = (uint8_t *)(uintptr_t)body, .total = body_bytes};

    if (peer->sends.first || !shm_may_be_pair(peer->out.size, head_bytes, body_bytes) ||
        !has_room(peer, shm_pair_payload(head_bytes, body_bytes)))
        return false;
    put(peer, make_word(head_bytes, WHOLE), head, head_bytes);
    if (body_bytes <= peer->out.whole_max) {
        put(peer, make_word(body_bytes, WHOLE), body, body_bytes);
        shm_stream_publish(peer);
    } else {
        put(peer, make_word(body_bytes, LENGTH), NULL, 0);
        (void)send_pieces(peer, &r); /* there is room */
    }
    peer->endpoint->sent_messages += 2;
    return true;
}

/* Writes what there is room for; true when that is all of it. */
static bool send_message(tutti_peer *peer, struct shm_request *r)
{
    if (!r->total) {
        bool whole = r->bytes <= peer->out.whole_max;

        if (!has_room(peer, whole ? r->bytes : 0))
            return false;
        put(peer, make_word(r->bytes, whole ? WHOLE : LENGTH), r->data, whole ? r->bytes : 0);
        if (whole)
            return true;
        r->total = r->bytes;
    }
    return send_pieces(peer, r);
}

void shm_stream_send(tutti_peer *peer)
{
    while (peer->sends.first && !peer->cut) {
        tutti_request *request = peer->sends.first;

        if (!send_message(peer, shm_of(request)))
            break;
        peer->endpoint->sent_messages++;
        tutti_queue_finish(&peer->endpoint->done, request, TUTTI_OK, shm_of(request)->bytes);
    }
    shm_stream_publish(peer);
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* The producer sees what was read. */
static __attribute__((noinline)) void give_back(tutti_peer *peer)
{
    struct shm_inlet *in = &peer->in;

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

/* All chunks before the position were used up. */
static inline void take_up_to(tutti_peer *peer, uint64_t position)
{
    struct shm_inlet *in = &peer->in;

    in->head = position;
    if (in->head - in->published >= in->size / 4)
        give_back(peer);
}

/* The chunk at the head was used up. */
static inline void take(tutti_peer *peer, uint64_t payload)
{
    take_up_to(peer, peer->in.head + shm_chunk_bytes(payload));
}

static void finish_receive(tutti_peer *peer, tutti_request *request, uint64_t bytes)
{
    peer->endpoint->received_messages++;
    tutti_queue_finish(&peer->endpoint->done, request, TUTTI_OK, bytes);
}

/* Whether the peer's CPU is near, as far as long pieces that were sent to that peer tell: from a ring, two parts take a
 * twentieth less time then. Far, where streaming stores have taken the lines to memory, two parts take half as much time
 * again. */
static bool is_near(const tutti_peer *peer)
{
    return peer->out.copy.plain && !peer->out.copy.streams;
}

/* A piece at the head of the ring. `streams`: its target is in no cache. */
static void read_from_ring(const tutti_peer *peer, const struct shm_inlet *in, bool streams,
                           uint8_t *to, uint64_t bytes)
{
    const tutti_shown at = shm_inlet_place(in, bytes);

    if (streams || at.rest_bytes)
        shm_inlet_read(in, streams, to, bytes);
    else
        shm_read(is_near(peer) ? 2 : 1, to, at.data, bytes);
}

/* The next piece of a message. `request` NULL: nobody receives it any more. `slot` NULL: it lies in the ring. */
static void receive_piece(tutti_peer *peer, tutti_request *request, uint64_t bytes,
                          const uint8_t *slot)
{
    const uint64_t in_ring = slot ? 0 : bytes;

    if (!request) {
        take(peer, in_ring);
        peer->skip -= bytes;
        return;
    }
    struct shm_request *r = shm_of(request);
    uint8_t *to = r->data + r->moved;

    if (slot)
        shm_read_slot(&peer->reads, to, slot, bytes);
    else
        read_from_ring(peer, &peer->in, request->flags & TUTTI_RECEIVE_UNCACHED, to, bytes);
    take(peer, in_ring);
    r->moved += bytes;
    if (r->moved == r->total)
        finish_receive(peer, request, r->total);
}

/* The first chunk of a message. */
static void receive_first(tutti_peer *peer, tutti_request *request, uint64_t bytes, bool whole)
{
    struct shm_request *r = shm_of(request);

    if (bytes > r->bytes) {
        take(peer, whole ? bytes : 0);
        peer->skip = whole ? 0 : bytes;
        tutti_queue_finish(
            &peer->endpoint->done, request,
            shm_error(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
                      "local peer %u sent %llu bytes where at most %llu were expected", peer->index,
                      (unsigned long long)bytes, (unsigned long long)r->bytes),
            0);
    } else if (whole) {
        shm_inlet_read(&peer->in, false, r->data, bytes);
        take(peer, bytes);
        finish_receive(peer, request, bytes);
    } else {
        take(peer, 0);
        r->total = bytes;
    }
}

/* A chunk that names a slot, of a message with so many bytes left. False: it cannot be. */
static bool receive_from_slot(tutti_peer *peer, tutti_request *request, uint64_t word,
                              uint64_t left)
{
    const uint64_t slot = word >> 2 >> SLOT_SHIFT, bytes = word >> 2 & UINT32_MAX;

    if (!bytes || bytes > SHM_SLOT_BYTES || bytes > left || !shm_slots_give(&peer->slots, slot))
        return false;
    receive_piece(peer, request, bytes, shm_slots_at(&peer->slots, (uint32_t)slot));
    return true;
}

/* Whether a message may begin with that chunk. */
static bool is_first(uint64_t word, uint64_t whole_max)
{
    const uint64_t bytes = word >> 2;

    return bytes <= whole_max ? (word & 3) == WHOLE : (word & 3) == LENGTH && bytes <= message_max;
}

void shm_stream_receive(tutti_peer *peer)
{
    const uint64_t piece_max = shm_piece_max(peer->in.size);
    const uint64_t whole_max = peer->in.whole_max;

    while (peer->receives.first || peer->skip) {
        tutti_request *request = peer->skip ? NULL : peer->receives.first;
        uint64_t left = request ? shm_of(request)->total - shm_of(request)->moved : peer->skip;
        uint64_t word = shm_inlet_word(&peer->in);
        uint64_t bytes = word >> 2;
        bool whole = (word & 3) == WHOLE;

        if (!word)
            return;
        if (left && whole && bytes <= piece_max && bytes && bytes <= left) {
            receive_piece(peer, request, bytes, NULL);
        } else if (left && (word & 3) == IN_SLOT) {
            if (!receive_from_slot(peer, request, word, left))
                break_stream(peer, "a chunk");
        } else if (!left && is_first(word, whole_max)) {
            receive_first(peer, request, bytes, whole);
        } else {
            break_stream(peer, "a chunk");
        }
    }
}

/* ---- showing ------------------------------------------------------------------------------- */

/* The lines behind the first are on their way while the core reads that. */
static void fetch(const tutti_shown *message)
{
    const uint8_t *data = message->data;
    const uint64_t bytes = message->bytes < FETCHED ? message->bytes : FETCHED;

    for (uint64_t at = SHM_LINE - sizeof(uint64_t); at < bytes; at += SHM_LINE)
        __builtin_prefetch(data + at);
}

tutti_status shm_stream_show(tutti_peer *peer, tutti_shown *ret_message)
{
    peer->shows = true;
    if (peer->skip)
        shm_stream_receive(peer);

    const uint64_t word = peer->skip ? 0 : shm_inlet_word(&peer->in), bytes = word >> 2;
    if (!word)
        return TUTTI_ERR_NOT_READY;
    if (!is_first(word, peer->in.whole_max)) {
        break_stream(peer, "a chunk");
        return TUTTI_ERR_INTERNAL;
    }
    if ((word & 3) == LENGTH)
        return TUTTI_ERR_BUSY;
    peer->shown_bytes = bytes;
    *ret_message = shm_inlet_place(&peer->in, bytes);
    fetch(ret_message);
    return TUTTI_OK;
}

void shm_stream_take(tutti_peer *peer)
{
    take(peer, peer->shown_bytes);
    peer->endpoint->received_messages++;
}

/* ---- a message behind the one that is shown ---- */

enum {
    /* For all words of a pair, which its producer writes in one go: some 10 us, and more of them the longer it is. */
    PAIR_LOOKS = 10000,
    PAIR_BYTES_A_LOOK = 16
};

/* How far a pair was read, of which nothing is taken yet. */
struct ahead {
    struct shm_inlet at; /* the next chunk */
    int looks;           /* that are left */
    uint32_t pieces, slots;
    uint64_t slot[SHM_PAIR_PIECES];
};

/* The word of the next chunk; 0: it does not come soon, since the producer stands still. Never more than a lap ahead,
 * which only a peer that breaks the rules would show. */
static uint64_t await_word(const tutti_peer *peer, struct ahead *ahead)
{
    uint64_t word = 0;

    if (ahead->at.head - peer->in.head >= ahead->at.size)
        return 0;
    while (!(word = shm_inlet_word(&ahead->at)) && ahead->looks > 0)
        ahead->looks--;
    return word;
}

/* Copies the piece with that word, of at most `left` bytes. How many it has; 0: it cannot be one. */
static uint64_t read_ahead(tutti_peer *peer, struct ahead *ahead, uint64_t word, uint8_t *to,
                           uint64_t left)
{
    const uint64_t slot = word >> 2 >> SLOT_SHIFT;
    const bool in_slot = (word & 3) == IN_SLOT;
    const uint64_t bytes = in_slot ? word >> 2 & UINT32_MAX : word >> 2;

    if (!bytes || bytes > left || ahead->pieces++ == SHM_PAIR_PIECES)
        return 0;
    if (in_slot) {
        if (bytes > SHM_SLOT_BYTES || !shm_slots_may_give(&peer->slots, slot))
            return 0;
        if (bytes < left) /* the next word is on its way meanwhile */
            __builtin_prefetch((const void *)shm_word_at(ahead->at.bytes, ahead->at.size,
                                                         ahead->at.head + SHM_LINE));
        shm_read_slot(&peer->reads, to, shm_slots_at(&peer->slots, (uint32_t)slot), bytes);
        ahead->slot[ahead->slots++] = slot;
    } else {
        if ((word & 3) != WHOLE || bytes > shm_piece_max(ahead->at.size))
            return 0;
        read_from_ring(peer, &ahead->at, false, to, bytes);
    }
    ahead->at.head += shm_chunk_bytes(in_slot ? 0 : bytes);
    return bytes;
}

/* What cannot be is left to shm_stream_receive(), which reads all again. */
bool shm_stream_take_pair(tutti_peer *peer, void *to, uint64_t bytes)
{
    struct ahead ahead = {.at = peer->in};
    const bool whole = bytes <= ahead.at.whole_max;

    if (!shm_may_be_pair(ahead.at.size, peer->shown_bytes, bytes))
        return false;
    ahead.looks = PAIR_LOOKS + (int)(bytes / PAIR_BYTES_A_LOOK);
    ahead.at.head += shm_chunk_bytes(peer->shown_bytes);

    uint64_t word = await_word(peer, &ahead);
    if (word != make_word(bytes, whole ? WHOLE : LENGTH))
        return false;
    if (!whole)
        ahead.at.head += shm_chunk_bytes(0);
    for (uint64_t moved = 0, piece; moved < bytes; moved += piece) {
        if (!whole)
            word = await_word(peer, &ahead);
        piece = read_ahead(peer, &ahead, word, (uint8_t *)to + moved, bytes - moved);
        if (!piece)
            return false;
    }
    for (uint32_t i = 0; i < ahead.slots; i++)
        if (!shm_slots_give(&peer->slots, ahead.slot[i])) {
            break_stream(peer, "a slot");
            return false;
        }
    take_up_to(peer, ahead.at.head);
    peer->endpoint->received_messages += 2;
    return true;
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
    return (peer->receives.first || peer->skip || peer->shows) && shm_inlet_word(&peer->in);
}

void shm_stream_forget(tutti_peer *peer, const struct shm_request *r, bool sending)
{
    if (!r->total)
        return;
    if (sending)
        peer->cut = true;
    else
        peer->skip = r->total - r->moved;
}
