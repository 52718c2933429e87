/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, inline, in a round: every member shows its vector in its announce line; the last one
 * reduces all of them in rank order, and the others read the result alone, not the lines of all.
 * For hosts whose members outnumber the CPUs.
 */
#include "algorithm/payload.h"
#include "algorithm/rounds.h"

struct reduction {
    struct mapped *mapped;
    const struct inline_call *call;
};

static void *result_of(const struct reduction *r)
{
    struct mapped_rounds *rounds = &r->mapped->areas[0]->rounds;

    return r->call->bytes <= ROUND_PAYLOAD ? rounds->payload : rounds->longer;
}

static void reduce(const void *user, uint32_t piece)
{
    const struct reduction *r = user;

    (void)piece;
    if (r->call->count)
        payload_reduce_to(r->mapped, r->call, result_of(r), r->call->in.base, 1, 0);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    const struct reduction r = {mapped, call};
    const tutti_status status = mapped_round(mapped, &(struct round_work){reduce, &r, 1});

    if (!status)
        payload_copy(call->out.base, result_of(&r), call->bytes);
    return status;
}

COST(.hand_overs = 1, .mapped_bytes = 2 * bytes, .reduced_bytes = (n - 1) * bytes)
ALGORITHM(all_reduce_inline_rounds, ALL_REDUCE, INLINE, .flags = ALGORITHM_SHARES_CPUS,
          .members = {ROUNDS_MEMBERS_MIN, 0}, .cost = cost, .post = payload_show, .poll = poll);
