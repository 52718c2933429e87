/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, inline: every member shows its vector in its announce line, reads all others' and
 * reduces them in rank order, so that all compute the same bits. One hand-over, no schedule.
 */
#include "algorithm/algorithm.h"

tutti_status all_reduce_inline_post(struct mapped *mapped, const struct inline_call *call)
{
    return mapped_announce(mapped, &call->announce, call->in, (size_t)call->bytes);
}

tutti_status all_reduce_inline_poll(struct mapped *mapped, const struct inline_call *call)
{
    const struct kernels *kernels = call->kernels;
    const uint64_t sequence = call->announce.sequence;
    tutti_status status = mapped_meet_all(mapped);

    if (status || !call->count)
        return status;
    for (int i = 0; i < mapped->mates; i++)
        mapped->vectors[i] = i == mapped->self ? call->in
                                               : mapped_payload(mapped_line(mapped, i, sequence),
                                                                (size_t)call->bytes);
    if (mapped->mates == 2)
        kernels->reduce(call->out, mapped->vectors[0], mapped->vectors[1], (size_t)call->count);
    else
        kernels->many(call->out, mapped->vectors, mapped->mates, (size_t)call->count);
    if (kernels->finish)
        kernels->finish(call->out, (size_t)call->count, kernels->members);
    return TUTTI_OK;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const double others = layout->size - 1;

    return (struct cost){.hand_overs = others > 0 ? 1 : 0,
                         .mapped_bytes = (double)bytes * (others + 1),
                         .reduced_bytes = (double)bytes * others};
}

const struct algorithm all_reduce_inline_algorithm = {"all_reduce_inline", OPERATION_ALL_REDUCE,
                                                      ALGORITHM_INLINE, NULL, cost};
