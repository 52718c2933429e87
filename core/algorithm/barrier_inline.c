/* SPDX-License-Identifier: Apache-2.0 */
/* barrier, inline: the announce line without payload, met by all. */
#include "algorithm/algorithm.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    return mapped_announce(mapped, call->announce, NULL, 0);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    (void)call;
    return mapped_meet_all(mapped);
}

COST(.hand_overs = 1)
ALGORITHM(barrier_inline, BARRIER, INLINE, .cost = cost, .post = post, .poll = poll);
