/* SPDX-License-Identifier: Apache-2.0 */
/* barrier, inline: the announce line without payload, met by all. */
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    (void)call;
    return mapped_meet_all(mapped);
}

COST(.hand_overs = 1)
ALGORITHM(barrier_inline, BARRIER, INLINE, .cost = cost, .post = payload_show_nothing,
          .poll = poll);
