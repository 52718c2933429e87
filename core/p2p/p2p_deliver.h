/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of arrived headers, and messages of a member to itself. */
#pragma once

#include "p2p/p2p_inside.h"

/* The header in path->wire has arrived. */
void p2p_deliver_header(struct p2p_path *path);
/* Delivers the messages that arrived before their groups existed. */
void p2p_deliver_orphans(struct p2p_engine *engine);
/* Gives a receive what had arrived before it was posted. */
void p2p_deliver_envelope(struct p2p_op *op, struct p2p_envelope *envelope);
/* `op`, which is in no bin any more, has met the message `h`. False: the sizes do not agree, and the
 * receive is complete with that. */
bool p2p_deliver_meet(struct p2p_op *op, struct p2p_path *path, const struct p2p_header *h);
/* The envelope is no longer ARRIVING. */
void p2p_envelope_settle(struct p2p_envelope *envelope, enum p2p_envelope_state state);
/* Nobody will receive it. */
void p2p_envelope_drop(struct p2p_envelope *envelope);

/* ---- p2p_self.c ---- */

void p2p_self_init(struct p2p_engine *engine);
/* Starts a send to oneself, an operation that is filled in. */
tutti_status p2p_self_send(struct p2p_op *send);
/* A receive takes the envelope of a send to oneself that still waits. */
void p2p_self_deliver(struct p2p_op *receive, struct p2p_envelope *envelope);
