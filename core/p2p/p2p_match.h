/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: which operation waits for what, what has arrived that no operation waits for, and the ids of transfers. */
#pragma once

#include "p2p/p2p_inside.h"

void p2p_table_free(struct p2p_table *table);
/* The first operation that waits for a message (source, tag), taken out; or NULL. */
struct p2p_op *p2p_match_arrived(struct p2p_group *group, uint8_t space, int source, uint64_t tag);
/* The first envelope that a receive or early-grant seeker (source, tag) may take, taken out; or
 * NULL. */
struct p2p_envelope *p2p_match_posted(struct p2p_group *group, uint8_t space, int source,
                                      uint64_t tag);
tutti_status p2p_match_post(struct p2p_group *group, struct p2p_op *op, int source);
/* The kept request `id` of the path, taken out; or NULL. */
struct p2p_envelope *p2p_match_request(struct p2p_group *group, const struct p2p_path *path,
                                       int source, uint64_t tag, uint32_t id);
void p2p_match_withdraw(struct p2p_op *op);
tutti_status p2p_match_keep(struct p2p_group *group, uint8_t space, struct p2p_envelope *envelope);
/* Takes an envelope out that was kept. */
void p2p_match_take(struct p2p_group *group, struct p2p_envelope *envelope);
/* Takes envelopes out one by one; NULL when none is left. `cursor` begins at 0. */
struct p2p_envelope *p2p_match_any(struct p2p_group *group, size_t *cursor);
tutti_status p2p_transfer_new(struct p2p_engine *engine, struct p2p_op *op);
void p2p_transfer_free(struct p2p_engine *engine, struct p2p_op *op);
/* The operation, or NULL when it is gone; `ret_known` false when there never was such an id. */
struct p2p_op *p2p_transfer_find(struct p2p_engine *engine, uint32_t id, bool *ret_known);
