/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long messages that are copied once, from registered memory of the sender, which the receiver maps.
 *
 * The request of such a message names its place. A receive that meets it copies from there into its own memory,
 * in pieces, so that everything else moves meanwhile. If that memory is registered, too, the receiver names its
 * place (P2P_HELP), and the sender copies pieces into it at the same time. P2P_TAKEN completes the send. A
 * receiver that does not map the sender's memory asks for the payload, as for that of any request. So does
 * one that would copy a very long message alone: through the ring both sides copy.
 *
 * The sender can end at any moment: it is cancelled, or its group has failed there. From then on its
 * memory may be written. So a word that both map, the claim, decides. The sender opens it under the send's id
 * before the request leaves. Each side takes the next piece from it, and counts it there when it is copied. A
 * sender that ends clears it; it is cancelled only while no piece is taken. A receiver that finds it cleared
 * has read what may have changed, and asks for the payload; a withdrawal, or a verdict, is on its way.
 */
#include <stdatomic.h>

#include <tutti/plugin_copy.h>

#include "p2p/p2p_parts.h"

enum {
    /* Copied in one go, under the progress lock. A shorter message has two pieces, one for each side: 256 KiB
     * take 4.0 us near and 8.2 us far, with pieces of 64 KiB 9.6 us far. */
    PIECE_MAX = 512 << 10,
    PIECES_MOST = (1 << 15) - 1,
    /*
     * A receiver copies more than this only if the sender can help; through the ring both sides copy. Alone, it
     * takes for 2 MiB 45 us near, where the ring takes 70, for 4 MiB 155 us and 143; far it takes 45 to 50 us
     * and 49 for 1 MiB, 112 us and 96 for 2 MiB.
     */
    ALONE_MAX = 1 << 20
};

/* A claim: the send's id, whether it is open, how many pieces are taken, and how many are copied. */
enum { TAKEN_SHIFT = 15, OPEN_SHIFT = 30, ID_SHIFT = 32 };
#define OPEN (UINT64_C(1) << OPEN_SHIFT)

static uint64_t open_claim(uint32_t id)
{
    return (uint64_t)id << ID_SHIFT | OPEN;
}

static bool is_open(uint64_t claim, uint32_t id)
{
    return (claim & ~(OPEN - 1)) == open_claim(id);
}

static uint32_t taken(uint64_t claim)
{
    return claim >> TAKEN_SHIFT & PIECES_MOST;
}

static uint32_t copied(uint64_t claim)
{
    return claim & PIECES_MOST;
}

/* Both sides know it by the length of the message. */
static uint64_t piece_bytes(uint64_t bytes)
{
    const uint64_t half = bytes / 2 + 1, least = bytes / PIECES_MOST + 1;
    const uint64_t piece = half < PIECE_MAX ? half : PIECE_MAX;

    return ((piece < least ? least : piece) + TUTTI_COPY_LINE - 1) &
           ~(uint64_t)(TUTTI_COPY_LINE - 1);
}

/* Adds to the claim `id`, if it is open and `most` pieces are not taken yet. What it was then, or is. */
static uint64_t add(_Atomic uint64_t *claim, uint32_t id, uint64_t what, uint32_t most,
                    bool *ret_added)
{
    uint64_t found = atomic_load(claim);

    *ret_added = false;
    while (is_open(found, id) && taken(found) < most && !*ret_added)
        *ret_added = atomic_compare_exchange_weak(claim, &found, found + what);
    return found;
}

/* ---- the sender ---- */

bool p2p_place_offer(struct p2p_op *send, int destination, struct p2p_header *header)
{
    const struct p2p_group *group = send->group;

    if (!group->events->place || !group->events->place(group->user, destination, send->buffer,
                                                       send->capacity, &header->place, &send->held))
        return false;
    send->claim = send->held;
    return true;
}

void p2p_place_open(struct p2p_op *send)
{
    atomic_store_explicit(send->claim, open_claim(send->id), memory_order_relaxed);
}

bool p2p_place_is_untouched(const struct p2p_op *send)
{
    return atomic_load(send->claim) == open_claim(send->id);
}

bool p2p_place_take_back(struct p2p_op *send)
{
    uint64_t open = open_claim(send->id);

    return atomic_compare_exchange_strong(send->claim, &open, 0);
}

void p2p_place_help(struct p2p_op *send, const struct p2p_header *h)
{
    const struct p2p_group *group = send->group;
    _Atomic uint64_t *unused;

    if (!send->claim) {
        p2p_nonsense(send->path, "a place for what was not offered");
        return;
    }
    tutti_status status = group->events->find(group->user, (int)h->source, &h->place,
                                              send->capacity, &send->other, &unused);
    if (status == TUTTI_ERR_INTERNAL)
        p2p_nonsense(send->path, "a place outside its registered memory");
    if (status)
        return; /* the receiver copies all of it */
    send->state = OP_HELPING;
    group->engine->begun += send->capacity;
    p2p_link_append(&group->engine->placed, &send->queue);
}

void p2p_place_end(struct p2p_op *op)
{
    if (op->held) {
        atomic_store(op->held, 0);
        op->group->events->unplace(op->group->user, op->held);
    }
    op->held = op->claim = NULL;
    p2p_link_remove(&op->queue);
}

/* ---- the receiver ---- */

/* Tells the sender where the message goes to, if it maps that. */
static bool ask_for_help(struct p2p_op *receive, struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_group *group = receive->group;
    struct p2p_header header = {.kind = P2P_HELP, .id = h->id};

    return group->events->place(group->user, (int)h->source, receive->buffer, h->bytes,
                                &header.place, &receive->held) &&
           p2p_flow_tell(path, group, &header);
}

static void lose(struct p2p_op *receive)
{
    p2p_place_end(receive);
    p2p_ask(receive, receive->path, receive->peer_id);
}

static void finish(struct p2p_op *receive)
{
    p2p_answer(receive->path, P2P_TAKEN, receive->group, receive->peer_id, 0);
    p2p_op_complete(receive, TUTTI_OK);
}

/* ---- both ---- */

static void copy_piece(struct p2p_op *op, uint64_t offset, uint64_t bytes)
{
    tutti_copy *copy = &op->group->engine->copy;
    unsigned char *own = (unsigned char *)op->buffer + offset, *other = op->other + offset;

    if (op->state == OP_READING) {
        tutti_copy_by(p2p_is_uncached(op), own, other, bytes);
        return;
    }
    tutti_copy_turn turn = tutti_copy_begin(copy, bytes);
    tutti_copy_by(turn.streams, other, own, bytes);
    tutti_copy_end(copy, turn, bytes);
}

/* Takes a piece and copies it; ends what is complete, or lost. False: there is nothing left to take. */
static bool move(struct p2p_op *op)
{
    const bool reads = op->state == OP_READING;
    const uint32_t id = reads ? op->peer_id : op->id;
    const uint64_t piece = piece_bytes(op->capacity);
    const uint32_t pieces = (uint32_t)((op->capacity + piece - 1) / piece);
    bool moves;
    uint64_t claim = add(op->claim, id, UINT64_C(1) << TAKEN_SHIFT, pieces, &moves);

    if (moves) {
        const uint64_t offset = taken(claim) * piece, left = op->capacity - offset;
        bool counted;

        copy_piece(op, offset, left < piece ? left : piece);
        claim = add(op->claim, id, 1, pieces + 1, &counted);
        claim += counted;
    }
    if (reads && !is_open(claim, id))
        lose(op);
    else if (reads && copied(claim) == pieces)
        finish(op);
    else if (!reads && !moves)
        p2p_link_remove(&op->queue);
    return moves;
}

bool p2p_place_read(struct p2p_op *receive, struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_group *group = receive->group;
    const tutti_status status =
        group->events->find ? group->events->find(group->user, (int)h->source, &h->place, h->bytes,
                                                  &receive->other, &receive->claim)
                            : TUTTI_ERR_NOT_READY;

    if (status == TUTTI_ERR_INTERNAL)
        p2p_nonsense(path, "a place outside its registered memory");
    if (status || (!ask_for_help(receive, path, h) && h->bytes > ALONE_MAX)) {
        p2p_place_end(receive);
        return path->failed;
    }
    receive->state = OP_READING;
    group->engine->begun += receive->capacity;
    receive->peer_id = h->id;
    p2p_link_append(&group->engine->placed, &receive->queue);
    (void)move(receive);
    return true;
}

unsigned p2p_place_progress(struct p2p_engine *engine)
{
    unsigned count = 0;

    P2P_EACH(op, &engine->placed, struct p2p_op, queue)
        count += move(op);
    return count;
}

bool p2p_is_placed(const struct p2p_engine *engine)
{
    return !p2p_link_alone(&engine->placed);
}
