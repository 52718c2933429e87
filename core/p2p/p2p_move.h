/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose bytes an engine moves: what p2p tells of them, and what is answered. */
#pragma once

#include <stdbool.h>

struct p2p_op;

/* What an operation has met whose bytes an engine may move; p2p_move.c. */
enum p2p_meeting {
    /* A receive: the sender's bytes can be moved, too. p2p_agree(), or p2p_give_buffer(). */
    P2P_MEETS_OFFER,
    /* The other side's bytes cannot be moved: p2p_give_buffer(). */
    P2P_MEETS_HOST,
    /* A receive: the message was taken back, and another one is to come. */
    P2P_MEETS_NOTHING,
    /* Both sides move it, behind the messages that they agreed on before: p2p_moved(). */
    P2P_IS_AGREED
};

/* Whether it is a receive that has met an offer, and has not answered. */
bool p2p_is_offered(const struct p2p_op *op);
/* A receive that has met an offer agrees. Nothing happens to one that was taken back, or has failed. */
void p2p_agree(struct p2p_op *op);
/* Its bytes go the usual way, from or to `buffer`. */
void p2p_give_buffer(struct p2p_op *op, void *buffer);
/* The engine has taken it over, once it was agreed on: it is complete. */
void p2p_moved(struct p2p_op *op);
