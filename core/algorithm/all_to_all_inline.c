/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, inline: every member shows all its blocks in its announce line, and copies the one
 * that is meant for it from each.
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

    if (status)
        return status;
    for (int i = 0; i < mapped->mates; i++)
        payload_copy(block_at(&call->out, (uint32_t)i),
                     i == mapped->self
                         ? block_at(&call->in, (uint32_t)i)
                         : payload_block(mapped, call, i, mapped->mates, mapped->self),
                     call->bytes);
    return TUTTI_OK;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return (struct cost){.hand_overs = 1, .mapped_bytes = 2 * bytes * layout->size};
}

const struct algorithm all_to_all_inline_algorithm = {
    "all_to_all_inline", OPERATION_ALL_TO_ALL, ALGORITHM_INLINE, NULL, cost, post, poll};
