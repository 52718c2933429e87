/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, inline: every member shows its vector in its announce line; the root reads them all and
 * reduces them in rank order. The others are done once they have written.
 */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    return call->root == mapped->self ? payload_reduce(mapped, call, call->in.base, 1, 0)
                                      : TUTTI_OK;
}

COST(.hand_overs = 1, .mapped_bytes = n * bytes, .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_inline, REDUCE, INLINE, .cost = cost, .post = payload_show_root, .poll = poll);
