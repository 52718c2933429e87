/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, inline: every member shows all its blocks in its announce line, and reduces its
 * own block of all members in rank order.
 */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    return payload_reduce(mapped, call, block_at(&call->in, (uint32_t)mapped->self),
                          mapped->local_size, mapped->self);
}

COST(.hand_overs = 1, .mapped_bytes = 2 * n * bytes, .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_scatter_inline, REDUCE_SCATTER, INLINE, .cost = cost, .post = payload_show_blocks,
          .poll = poll);
