/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, inline: the root shows all blocks in its announce line; each member copies its own. The
 * root is done once it has written.
 */
#include "algorithm/payload.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    return call->root == mapped->self ? payload_show_blocks(mapped, call)
                                      : payload_show_nothing(mapped, call);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    const bool root = call->root == mapped->self;
    const tutti_status status = root ? TUTTI_OK : payload_meet_root(mapped, call);

    if (!status)
        payload_copy(
            call->out.base,
            root ? block_at(&call->in, (uint32_t)mapped->self)
                 : payload_block(mapped, call, call->root, mapped->local_size, mapped->self),
            call->bytes);
    return status;
}

COST(.hand_overs = 1, .mapped_bytes = (n + 1) * bytes)
ALGORITHM(scatter_inline, SCATTER, INLINE, .cost = cost, .post = post, .poll = poll);
