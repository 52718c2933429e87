/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, inline: the root shows all blocks in its announce line; each member copies its own. The
 * root is done once it has written.
 */
#include "algorithm/algorithm.h"
#include "algorithm/payload.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    unsigned char buffer[MAPPED_PAYLOAD_MAX];

    if (call->root != mapped->self)
        return mapped_announce(mapped, &call->announce, NULL, 0);
    return mapped_announce(mapped, &call->announce, payload_of_blocks(call, mapped->mates, buffer),
                           (size_t)call->bytes * (size_t)mapped->mates);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status;

    if (call->root == mapped->self) {
        payload_copy(call->out.base, block_at(&call->in, (uint32_t)mapped->self), call->bytes);
        return TUTTI_OK;
    }
    status = mapped_meet(mapped, call->root);
    if (status == TUTTI_ERR_NOT_READY)
        mapped->culprit = call->root;
    if (!status)
        payload_copy(call->out.base,
                     payload_block(mapped, call, call->root, mapped->mates, mapped->self),
                     call->bytes);
    return status;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return (struct cost){.hand_overs = 1, .mapped_bytes = bytes * (layout->size + 1)};
}

const struct algorithm scatter_inline_algorithm = {
    "scatter_inline", OPERATION_SCATTER, ALGORITHM_INLINE, NULL, cost, post, poll};
