/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an inline call shows in its line where it has a block for every member: all of them, one
 * behind the other. They lie so already, unless the caller gave a list.
 */
#ifndef TUTTI_ALGORITHM_PAYLOAD_H
#define TUTTI_ALGORITHM_PAYLOAD_H

#include <string.h>

#include "algorithm/algorithm.h"

static inline const void *payload_of_blocks(const struct inline_call *call, int blocks,
                                            unsigned char buffer[MAPPED_PAYLOAD_MAX])
{
    if (!call->in.each)
        return call->in.base;
    for (int i = 0; i < blocks && call->bytes; i++)
        memcpy(buffer + (size_t)i * call->bytes, block_at(&call->in, (uint32_t)i),
               (size_t)call->bytes);
    return buffer;
}

/* My input for the root, who has no need to show its own. */
static inline tutti_status payload_show_root(struct mapped *mapped, const struct inline_call *call)
{
    const bool root = call->root == mapped->self;

    return mapped_announce(mapped, &call->announce, call->in.base, root ? 0 : (size_t)call->bytes);
}

/* Block `block` of what mate `index` shows, its payload being `blocks` blocks. */
static inline const void *payload_block(const struct mapped *mapped, const struct inline_call *call,
                                        int index, int blocks, int block)
{
    struct mapped_line *line = mapped_line(mapped, index);

    return mapped_payload(line, (size_t)call->bytes * (size_t)blocks) + (size_t)block * call->bytes;
}

/* For output blocks; the same place when the caller works in place. */
static inline void payload_copy(void *to, const void *from, uint64_t bytes)
{
    if (bytes && to != from)
        memcpy(to, from, (size_t)bytes);
}

/* What all mates show, mine being my input, to the blocks of the output. */
static inline void payload_gather(const struct mapped *mapped, const struct inline_call *call)
{
    for (int i = 0; i < mapped->mates; i++)
        payload_copy(block_at(&call->out, (uint32_t)i),
                     i == mapped->self ? call->in.base : payload_block(mapped, call, i, 1, 0),
                     call->bytes);
}

/* The operands that mapped->vectors name, reduced in rank order to `out`. */
static inline void payload_reduce(struct mapped *mapped, const struct inline_call *call, void *out)
{
    const struct kernels *kernels = call->kernels;

    if (mapped->mates == 2)
        kernels_reduce(kernels, out, mapped->vectors[0], mapped->vectors[1], call->count);
    else
        kernels_many(kernels, out, mapped->vectors, mapped->mates, call->count);
    if (kernels->finish)
        kernels->finish(out, (size_t)call->count, kernels->members);
}

#endif
