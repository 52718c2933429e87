/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, inline: every member shows its block in its announce line and copies all others'.
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

    if (!status)
        payload_gather(mapped, call);
    return status;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return (struct cost){.hand_overs = 1, .mapped_bytes = bytes * (layout->size + 1)};
}

const struct algorithm all_gather_inline_algorithm = {
    "all_gather_inline", OPERATION_ALL_GATHER, ALGORITHM_INLINE, NULL, cost, post, poll};
