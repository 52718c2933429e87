/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, inline: every member shows its block in its announce line; the root copies them. The
 * others are done once they have written.
 */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    return call->root == mapped->self ? payload_gather(mapped, call) : TUTTI_OK;
}

COST(.hand_overs = 1, .mapped_bytes = n * bytes)
ALGORITHM(gather_inline, GATHER, INLINE, .cost = cost, .post = payload_show_root, .poll = poll);
