/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, inline: every member shows all its blocks in its announce line, and reduces its
 * own block of all members in rank order.
 */
#include "algorithm/algorithm.h"
#include "algorithm/payload.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    unsigned char buffer[MAPPED_PAYLOAD_MAX];

    return mapped_announce(mapped, &call->announce, payload_of_blocks(call, mapped->mates, buffer),
                           (size_t)call->bytes * (size_t)mapped->mates);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status = mapped_meet_all(mapped);

    if (status || !call->count)
        return status;
    for (int i = 0; i < mapped->mates; i++)
        mapped->vectors[i] = i == mapped->self
                                 ? block_at(&call->in, (uint32_t)i)
                                 : payload_block(mapped, call, i, mapped->mates, mapped->self);
    payload_reduce(mapped, call, call->out.base);
    return TUTTI_OK;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size;

    return (struct cost){
        .hand_overs = 1, .mapped_bytes = 2 * n * bytes, .reduced_bytes = (n - 1) * bytes};
}

const struct algorithm reduce_scatter_inline_algorithm = {
    "reduce_scatter_inline", OPERATION_REDUCE_SCATTER, ALGORITHM_INLINE, NULL, cost, post, poll};
