/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that need no operation: one that the transport takes at once, and one that is there, or comes while its
 * receiver looks. They are short, or the transport carries pairs (p2p_short.c). Nothing of them is in any table, so
 * only what would be matched next anyway goes this way; everything else, every failure too, is left to p2p_send()
 * and p2p_recv(). And a look for the message of a receive that is posted.
 */
#include "p2p/p2p_parts.h"

/* This and p2p_recv_now() with all that they call in one function, where the kind of the header is known. */
__attribute__((flatten)) bool p2p_send_now(struct p2p_group *group, int destination, uint64_t tag,
                                           const void *buffer, uint64_t bytes)
{
    struct p2p_path *path = group->paths[destination];

    /* What is longer may lie in registered memory. */
    if (!path || group->failed || !p2p_short_may_send(path) || bytes > path->eager_max ||
        bytes > path->credit)
        return false;

    struct p2p_header header;
    header.kind = P2P_MESSAGE;
    header.group = group->id;
    header.source = (uint32_t)group->rank;
    header.id = 0;
    header.bytes = bytes;
    header.tag = tag;
    if (!p2p_short_send(path, &header, buffer))
        return false;
    path->credit -= (uint32_t)bytes;
    return true;
}

/* Whether what the path shows next may be taken past the engine. */
static inline bool is_clear(const struct p2p_group *group, const struct p2p_path *path)
{
    return !group->failed && !path->failed && path->at->shows && path->greeted &&
           !group->engine->adopting && p2p_link_alone(&path->incoming);
}

bool p2p_may_recv_now(const struct p2p_group *group, int source, uint64_t tag)
{
    const struct p2p_path *path = group->paths[source];

    return path && is_clear(group, path) && !p2p_match_is_known(group, source, tag);
}

/* Takes the header that was shown and the payload behind it, if that comes soon, and fills the buffer: what is not taken may
 * have been written by then, so the message has to be as long. Not into memory that stays in no cache. Charges the peer. */
static __attribute__((noinline)) bool take_pair(const struct p2p_group *group,
                                                struct p2p_path *path,
                                                const struct p2p_short_message *message,
                                                void *buffer, uint64_t capacity)
{
    const struct p2p_endpoint *at = path->at;
    const struct p2p_header *h = &message->header;

    if (!at->pair_max || message->size != message->header_bytes || h->bytes != capacity ||
        h->bytes >= group->uncached_bytes || h->bytes > path->unasked_max ||
        h->bytes > path->window - path->peer_used ||
        at->ops->take_pair(at->endpoint, path->peer, P2P_LANE, buffer, h->bytes))
        return false;

    const char *wrong = p2p_deliver_limits(path, h);
    if (wrong)
        p2p_nonsense(path, wrong);
    return !wrong;
}

__attribute__((flatten)) enum p2p_now p2p_recv_now(struct p2p_group *group, int source,
                                                   uint64_t tag, void *buffer, uint64_t capacity,
                                                   bool up_to, uint64_t *ret_bytes)
{
    struct p2p_path *path = group->paths[source];
    struct p2p_short_message message;

    tutti_status status = p2p_short_show(path, &message);
    if (status)
        return status == TUTTI_ERR_NOT_READY ? P2P_NOW_NOTHING : P2P_NOW_OTHER;

    const struct p2p_header *h = &message.header;
    if (message.wrong || h->kind != P2P_MESSAGE || h->group != group->id ||
        h->source != (uint32_t)source || h->tag != tag ||
        (up_to ? h->bytes > capacity : h->bytes != capacity))
        return P2P_NOW_OTHER;
    if (message.size != message.header_bytes + h->bytes) {
        if (!take_pair(group, path, &message, buffer, capacity))
            return P2P_NOW_OTHER;
    } else {
        if (p2p_deliver_limits(path, h))
            return P2P_NOW_OTHER;
        p2p_short_copy(&message.shown, message.header_bytes, buffer, h->bytes);
        path->at->ops->take(path->at->endpoint, path->peer, P2P_LANE);
    }
    path->peer_shows |= h->shows;
    path->arrived += 2;
    path->met++;
    p2p_flow_owe(path, h->bytes);
    *ret_bytes = h->bytes;
    return P2P_NOW_DONE;
}

__attribute__((flatten)) enum p2p_now p2p_recv_at_once(struct p2p_group *group, int source,
                                                       uint64_t tag, void *buffer,
                                                       uint64_t capacity, bool up_to,
                                                       uint64_t *ret_bytes)
{
    return p2p_may_recv_now(group, source, tag)
               ? p2p_recv_now(group, source, tag, buffer, capacity, up_to, ret_bytes)
               : P2P_NOW_OTHER;
}

bool p2p_can_look(const struct p2p_op *op)
{
    return op->state == OP_POSTED && op->path && op->path->at && op->path->at->shows &&
           !op->path->engine->adopting;
}

/* The message of a receive that is the only one posted needs no look at the tables. */
static enum p2p_now take_only(struct p2p_op *op)
{
    struct p2p_group *group = op->group;
    const int32_t source = group->table.only_source;
    uint64_t bytes;

    if (group->table.only != op || op->has_no_buffer || !is_clear(group, op->path))
        return P2P_NOW_OTHER;

    const enum p2p_now now =
        p2p_recv_now(group, source, op->tag, op->buffer, op->capacity, op->up_to, &bytes);
    if (now == P2P_NOW_DONE) {
        op->source = source;
        op->capacity = bytes;
        p2p_op_complete(op, TUTTI_OK);
    }
    return now;
}

unsigned p2p_look(struct p2p_op *op)
{
    struct p2p_engine *engine = op->path->engine;
    const enum p2p_now now = take_only(op);
    const unsigned count = now == P2P_NOW_OTHER ? p2p_short_look(op->path) : now == P2P_NOW_DONE;

    if (count)
        (void)p2p_finish(engine);
    return count;
}
