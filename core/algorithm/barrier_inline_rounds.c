/* SPDX-License-Identifier: Apache-2.0 */
/* barrier, inline, in a round: the last member meets the lines of all; the others wait for it
 * alone. */
#include "algorithm/payload.h"
#include "algorithm/rounds.h"

static void nothing(const void *user, uint32_t piece)
{
    (void)user;
    (void)piece;
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    (void)call;
    return mapped_round(mapped, &(struct round_work){.reduce = nothing, .pieces = 1});
}

COST(.hand_overs = 1)
ALGORITHM(barrier_inline_rounds, BARRIER, INLINE, .flags = ALGORITHM_SHARES_CPUS,
          .members = {ROUNDS_MEMBERS_MIN, 0}, .cost = cost, .post = payload_show_nothing,
          .poll = poll);
