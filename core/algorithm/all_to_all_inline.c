/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, inline: every member shows all its blocks in its announce line, and copies the one
 * that is meant for it from each.
 */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    const tutti_status status = mapped_meet_all(mapped);

    for (int i = 0; !status && i < mapped->local_size; i++)
        payload_copy(block_at(&call->out, (uint32_t)i),
                     i == mapped->self
                         ? block_at(&call->in, (uint32_t)i)
                         : payload_block(mapped, call, i, mapped->local_size, mapped->self),
                     call->bytes);
    return status;
}

COST(.hand_overs = 1, .mapped_bytes = 2 * n * bytes)
ALGORITHM(all_to_all_inline, ALL_TO_ALL, INLINE, .cost = cost, .post = payload_show_blocks,
          .poll = poll);
