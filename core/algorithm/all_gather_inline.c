/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, inline: every member shows its block in its announce line and copies all others'.
 */
#include "algorithm/payload.h"

COST(.hand_overs = 1, .mapped_bytes = (n + 1) * bytes)
ALGORITHM(all_gather_inline, ALL_GATHER, INLINE, .cost = cost, .post = payload_show,
          .poll = payload_gather);
