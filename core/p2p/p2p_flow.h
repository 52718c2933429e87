/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic of a path: packets, pieces, credits. */
#pragma once

#include "p2p/p2p_inside.h"

bool p2p_packet_queue(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                      const void *data);
void p2p_packet_drop(struct p2p_packet *packet);
bool p2p_packet_copy(struct p2p_packet *packet);
void p2p_packet_free(struct p2p_packet *packet);
unsigned p2p_flow_send(struct p2p_path *path);
unsigned p2p_flow_receive(struct p2p_path *path);
void p2p_flow_sent(struct p2p_io *io);
void p2p_flow_stream(struct p2p_op *op, uint32_t peer_id);
void p2p_flow_credit(struct p2p_path *path, uint64_t bytes);
bool p2p_flow_expect(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                     struct p2p_envelope *envelope);
void p2p_flow_received(struct p2p_io *io);
void p2p_incoming_free(struct p2p_incoming *incoming);
bool p2p_incoming_redirect(struct p2p_incoming *incoming);
