/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, inline: every member shows its vector in its announce line; the root reads them all and
 * reduces them in rank order. The others are done once they have written.
 */
#include "algorithm/algorithm.h"
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status;

    if (call->root != mapped->self)
        return TUTTI_OK;
    status = mapped_meet_all(mapped);
    if (status || !call->count)
        return status;
    for (int i = 0; i < mapped->mates; i++)
        mapped->vectors[i] =
            i == mapped->self ? call->in.base : payload_block(mapped, call, i, 1, 0);
    payload_reduce(mapped, call, call->out.base);
    return TUTTI_OK;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;

    return (struct cost){
        .hand_overs = 1, .mapped_bytes = bytes * (others + 1), .reduced_bytes = bytes * others};
}

const struct algorithm reduce_inline_algorithm = {
    "reduce_inline", OPERATION_REDUCE, ALGORITHM_INLINE, NULL, cost, payload_show_root, poll};
