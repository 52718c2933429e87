/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What inline calls share: showing the input in the own line, and reading the others' lines. Where a
 * call has a block for every member, the line shows all of them, one behind the other. They lie so
 * already, unless the caller gave a list.
 */
#pragma once

#include <string.h>

#include "algorithm/algorithm.h"

/* Shows that I am there. */
static inline tutti_status payload_show_nothing(struct mapped *mapped,
                                                const struct inline_call *call)
{
    return mapped_announce(mapped, call->announce, NULL, 0);
}

/* Shows my input. */
static inline tutti_status payload_show(struct mapped *mapped, const struct inline_call *call)
{
    return mapped_announce(mapped, call->announce, call->in.base, (size_t)call->bytes);
}

/* Shows my input to the root; the root does not show its own. */
static inline tutti_status payload_show_root(struct mapped *mapped, const struct inline_call *call)
{
    const bool root = call->root == mapped->self;

    return mapped_announce(mapped, call->announce, call->in.base, root ? 0 : (size_t)call->bytes);
}

/* Shows all blocks of my input. */
static inline tutti_status payload_show_blocks(struct mapped *mapped,
                                               const struct inline_call *call)
{
    const size_t bytes = (size_t)call->bytes;
    unsigned char buffer[MAPPED_PAYLOAD_MAX];

    for (int i = 0; call->in.each && bytes && i < mapped->local_size; i++)
        memcpy(buffer + (size_t)i * bytes, block_at(&call->in, (uint32_t)i), bytes);
    return mapped_announce(mapped, call->announce, call->in.each ? buffer : call->in.base,
                           bytes * (size_t)mapped->local_size);
}

/* Meets the root. */
static inline tutti_status payload_meet_root(struct mapped *mapped, const struct inline_call *call)
{
    const tutti_status status = mapped_meet(mapped, call->root);

    if (status == TUTTI_ERR_NOT_READY)
        mapped->culprit = call->root;
    return status;
}

/* Block `block` of what local peer `index` shows, its payload being `blocks` blocks. */
static inline const void *payload_block(const struct mapped *mapped, const struct inline_call *call,
                                        int index, int blocks, int block)
{
    struct mapped_line *line = mapped_line(mapped, index);

    return mapped_payload(line, (size_t)call->bytes * (size_t)blocks) + (size_t)block * call->bytes;
}

/* Copies to output blocks; source and target are the same when the caller works in place. */
static inline void payload_copy(void *to, const void *from, uint64_t bytes)
{
    if (bytes && to != from)
        memcpy(to, from, (size_t)bytes);
}

/* Copies the payloads of all local peers, my own input included, to the blocks of the output. */
static inline tutti_status payload_gather(struct mapped *mapped, const struct inline_call *call)
{
    const tutti_status status = mapped_meet_all(mapped);

    for (int i = 0; !status && i < mapped->local_size; i++)
        payload_copy(block_at(&call->out, (uint32_t)i),
                     i == mapped->self ? call->in.base : payload_block(mapped, call, i, 1, 0),
                     call->bytes);
    return status;
}

/* Reduces block `block` of all members, who have been met and whose payloads are `blocks`
 * blocks, in rank order to `out`; mine is at `own`. */
static inline void payload_reduce_to(struct mapped *mapped, const struct inline_call *call,
                                     void *out, const void *own, int blocks, int block)
{
    const struct kernels *kernels = call->kernels;

    for (int i = 0; i < mapped->local_size; i++)
        mapped->vectors[i] =
            i == mapped->self ? own : payload_block(mapped, call, i, blocks, block);
    if (mapped->local_size == 2)
        kernels_reduce(kernels, out, mapped->vectors[0], mapped->vectors[1], call->count);
    else
        kernels_many(kernels, out, mapped->vectors, mapped->local_size, call->count);
    if (kernels->finish)
        kernels->finish(out, (size_t)call->count, kernels->members);
}

/* The same to the output, once all have been met. */
static inline tutti_status payload_reduce(struct mapped *mapped, const struct inline_call *call,
                                          const void *own, int blocks, int block)
{
    const tutti_status status = mapped_meet_all(mapped);

    if (!status && call->count)
        payload_reduce_to(mapped, call, call->out.base, own, blocks, block);
    return status;
}
