/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages whose bytes an engine moves where they lie, as between the memories of two GPUs.
 *
 * The header of such a message offers that, and is matched as any other. A receive whose bytes can be moved, too,
 * agrees once its caller says so. The sender answers an agreement with P2P_MOVE, and hands the message to its engine;
 * the receiver does so when that comes. Headers of a path keep their order, so both engines get the messages from
 * one member to another in the same order, which is that of the agreements.
 *
 * Where one side cannot, the request is granted as any other, and the other side needs a buffer that it did without
 * so far. Until a sender has heard of an agreement it can take the message back, so the receiver hands nothing to
 * its engine before P2P_MOVE.
 */
#include "p2p/p2p_parts.h"

bool p2p_move_meets(struct p2p_op *receive, const struct p2p_header *h)
{
    if (h->moves)
        receive->state = OP_OFFERED;
    else if (receive->has_no_buffer)
        receive->state = OP_BARE;
    else
        return false;
    receive->peer_id = h->id;
    receive->meets(receive, h->moves ? P2P_MEETS_OFFER : P2P_MEETS_HOST);
    return true;
}

void p2p_move_granted(struct p2p_op *send, uint32_t peer_id)
{
    send->state = OP_GRANTED;
    send->peer_id = peer_id;
    send->meets(send, P2P_MEETS_HOST);
}

void p2p_move_agreed(struct p2p_op *send, const struct p2p_header *h)
{
    const struct p2p_group *group = send->group;

    if (!send->may_move) {
        p2p_nonsense(send->path, "it agrees to what was not offered");
        return;
    }
    p2p_transfer_free(group->engine, send);
    send->state = OP_MOVING;
    p2p_answer(send->path, P2P_MOVE, group, (uint32_t)h->tag, 0);
    send->meets(send, P2P_IS_AGREED);
}

void p2p_move_begins(struct p2p_op *receive)
{
    p2p_transfer_free(receive->group->engine, receive);
    receive->state = OP_MOVING;
    receive->meets(receive, P2P_IS_AGREED);
}

bool p2p_is_offered(const struct p2p_op *op)
{
    return op->state == OP_OFFERED;
}

void p2p_agree(struct p2p_op *op)
{
    if (op->state != OP_OFFERED)
        return;
    if (p2p_transfer_new(op->group->engine, op) != TUTTI_OK) {
        p2p_answer(op->path, P2P_REFUSE, op->group, op->peer_id, 0);
        p2p_op_complete(op, TUTTI_ERR_NO_MEMORY);
        return;
    }
    op->state = OP_AGREED;
    p2p_answer(op->path, P2P_AGREE, op->group, op->peer_id, op->id);
}

void p2p_give_buffer(struct p2p_op *op, void *buffer)
{
    op->buffer = buffer;
    op->has_no_buffer = false;
    if (op->state == OP_OFFERED || op->state == OP_BARE) {
        p2p_ask(op, op->path, op->peer_id);
    } else if (op->state == OP_GRANTED) {
        p2p_flow_stream(op, op->peer_id);
        p2p_flow_send(op->path);
    }
}

void p2p_moved(struct p2p_op *op)
{
    if (op->state == OP_MOVING)
        p2p_op_complete(op, TUTTI_OK);
}
