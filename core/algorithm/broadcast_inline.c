/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, inline: the vector lies in the root's announce line. The root is done once it has
 * written; it waits for room only when a mate is several calls behind.
 */
#include <string.h>

#include "algorithm/algorithm.h"

static tutti_status post(struct mapped *mapped, const struct inline_call *call)
{
    const bool root = call->root == mapped->self;

    return mapped_announce(mapped, &call->announce, call->out.base, root ? (size_t)call->bytes : 0);
}

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status;

    if (call->root == mapped->self)
        return TUTTI_OK;
    status = mapped_meet(mapped, call->root);
    if (status == TUTTI_ERR_NOT_READY)
        mapped->culprit = call->root;
    if (status == TUTTI_OK && call->bytes)
        memcpy(call->out.base, mapped_payload(mapped_line(mapped, call->root), (size_t)call->bytes),
               (size_t)call->bytes);
    return status;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    return (struct cost){.hand_overs = 1, .mapped_bytes = 2 * bytes};
}

const struct algorithm broadcast_inline_algorithm = {
    "broadcast_inline", OPERATION_BROADCAST, ALGORITHM_INLINE, NULL, cost, post, poll};
