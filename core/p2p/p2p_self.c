/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a member to itself.
 *
 * They meet their receives in the same tables as all others, so that any source, tags and the order
 * hold, but no transport has a part in them: the payload is copied once, from the sender's memory to
 * the receiver's. Where the send comes first it is as to anybody else: what fits into the window is
 * kept in memory of the core, and the send is complete; a larger one waits for its receive.
 */
#include <string.h>

#include "p2p/p2p_parts.h"

static struct p2p_header header_of(const struct p2p_op *send, bool eager)
{
    return (struct p2p_header){.kind = eager ? P2P_MESSAGE : P2P_REQUEST,
                               .group = send->group->id,
                               .source = (uint32_t)send->group->rank,
                               .bytes = send->capacity,
                               .tag = send->tag};
}

/* The send is complete even when the sizes differ: the receiver has the mismatch. */
static void hand_over(struct p2p_op *send, struct p2p_op *receive)
{
    struct p2p_header header = header_of(send, true);

    if (p2p_deliver_meet(receive, send->path, &header)) {
        if (header.bytes)
            memmove(receive->buffer, send->buffer, header.bytes); /* may be the same */
        p2p_op_complete(receive, TUTTI_OK);
    }
    p2p_op_complete(send, TUTTI_OK);
}

void p2p_self_deliver(struct p2p_op *receive, struct p2p_envelope *envelope)
{
    struct p2p_op *send = envelope->op;

    send->held_by = NULL;
    hand_over(send, receive);
    p2p_envelope_drop(envelope);
}

/* Keeps the message, or only the word of it, until a receive is posted. */
static tutti_status keep(struct p2p_op *send)
{
    struct p2p_engine *engine = send->group->engine;
    struct p2p_path *self = &engine->self;
    uint64_t bytes = send->capacity;
    bool eager = bytes <= self->eager_max && bytes <= self->credit;
    struct p2p_buffer *buffer = NULL;
    struct p2p_envelope *envelope =
        engine->envelopes < P2P_ENVELOPES_MAX ? p2p_pool_take(&engine->envelope_pool) : NULL;

    if (!envelope)
        return p2p_op_give_up(send, "send to oneself");
    if (eager && bytes && !(buffer = p2p_buffer_take(&engine->buffers, bytes))) {
        p2p_pool_give(&engine->envelope_pool, envelope);
        return p2p_op_give_up(send, "send to oneself");
    }
    *envelope = (struct p2p_envelope){.header = header_of(send, eager),
                                      .path = self,
                                      .op = eager ? NULL : send,
                                      .buffer = buffer,
                                      .state = eager ? ENVELOPE_ARRIVED : ENVELOPE_SELF};
    p2p_link_init(&envelope->by_source);
    p2p_link_init(&envelope->by_tag);
    engine->envelopes++;
    if (eager)
        self->credit -= (uint32_t)bytes;
    if (p2p_match_keep(send->group, SPACE_USER, envelope) != TUTTI_OK) {
        p2p_envelope_drop(envelope);
        return p2p_op_give_up(send, "send to oneself");
    }
    if (eager) {
        if (bytes)
            memcpy(buffer->data, send->buffer, bytes);
        p2p_op_complete(send, TUTTI_OK);
    } else {
        send->held_by = envelope;
    }
    return TUTTI_OK;
}

tutti_status p2p_self_send(struct p2p_op *send)
{
    struct p2p_group *group = send->group;
    struct p2p_op *receive = p2p_match_arrived(group, SPACE_USER, group->rank, send->tag);

    if (!receive)
        return keep(send);
    hand_over(send, receive);
    return TUTTI_OK;
}
