/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, inline: every member shows its block in its announce line; the root copies them. The
 * others are done once they have written.
 */
#include "algorithm/algorithm.h"
#include "algorithm/payload.h"

static tutti_status poll(struct mapped *mapped, const struct inline_call *call)
{
    tutti_status status;

    if (call->root != mapped->self)
        return TUTTI_OK;
    status = mapped_meet_all(mapped);
    if (!status)
        payload_gather(mapped, call);
    return status;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return (struct cost){.hand_overs = 1, .mapped_bytes = bytes * layout->size};
}

const struct algorithm gather_inline_algorithm = {
    "gather_inline", OPERATION_GATHER, ALGORITHM_INLINE, NULL, cost, payload_show_root, poll};
