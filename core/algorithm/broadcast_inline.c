/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, inline: the vector lies in the root's announce line. The root is done once it has
 * written; it waits for room only when a local peer is several calls behind.
 */
#include "algorithm/payload.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    const bool root = call->root == mapped->self;

    return mapped_announce(mapped, call->announce, call->out.base, root ? (size_t)call->bytes : 0);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    if (call->root == mapped->self)
        return TUTTI_OK;
    const tutti_status status = payload_meet_root(mapped, call);
    if (!status)
        payload_copy(call->out.base, payload_block(mapped, call, call->root, 1, 0), call->bytes);
    return status;
}

COST(.hand_overs = 1, .mapped_bytes = 2 * bytes)
ALGORITHM(broadcast_inline, BROADCAST, INLINE, .cost = cost, .post = post, .poll = poll);
