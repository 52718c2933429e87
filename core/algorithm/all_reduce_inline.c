/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, inline: every member shows its vector in its announce line, reads all others' and
 * reduces them in rank order, so that all compute the same bits. One hand-over, no schedule.
 */
#include "algorithm/algorithm.h"
#include "algorithm/payload.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    return mapped_announce(mapped, &call->announce, call->in.base, (size_t)call->bytes);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status = mapped_meet_all(mapped);

    if (status || !call->count)
        return status;
    for (int i = 0; i < mapped->mates; i++)
        mapped->vectors[i] = i == mapped->self
                                 ? call->in.base
                                 : mapped_payload(mapped_line(mapped, i), (size_t)call->bytes);
    payload_reduce(mapped, call, call->out.base);
    return TUTTI_OK;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;

    return (struct cost){.hand_overs = others > 0 ? 1 : 0,
                         .mapped_bytes = bytes * (others + 1),
                         .reduced_bytes = bytes * others};
}

const struct algorithm all_reduce_inline_algorithm = {
    "all_reduce_inline", OPERATION_ALL_REDUCE, ALGORITHM_INLINE, NULL, cost, post, poll};
