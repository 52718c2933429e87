/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, inline: every member shows its vector in its announce line, reads all others' and
 * reduces them in rank order, so that all compute the same bits. One hand-over, no schedule.
 */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    return payload_reduce(mapped, call, call->in.base, 1, 0);
}

COST(.hand_overs = n > 1, .mapped_bytes = n * bytes, .reduced_bytes = (n - 1) * bytes)
ALGORITHM(all_reduce_inline, ALL_REDUCE, INLINE, .cost = cost, .post = payload_show, .poll = poll);
