/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chain.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 64 };

struct chain_block {
    _Alignas(ALIGN) struct chain_block *next;
    _Atomic uint32_t users; /* of the first block: chains that begin with it */
};

void *chain_allocate(struct chain *chain, size_t bytes)
{
    struct chain_block *block;

    if (bytes > SIZE_MAX - sizeof *block - ALIGN)
        return NULL;
    block = aligned_alloc(ALIGN, sizeof *block + (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!block)
        return NULL;
    block->next = chain->first;
    atomic_init(&block->users, 1);
    chain->first = block;
    return block + 1;
}

struct chain chain_share_all(const struct chain *chain)
{
    atomic_fetch_add(&chain->first->users, 1);
    return *chain;
}

void chain_free_all(struct chain *chain)
{
    if (atomic_fetch_sub(&chain->first->users, 1) > 1)
        chain->first = NULL;
    while (chain->first) {
        struct chain_block *block = chain->first;

        chain->first = block->next;
        free(block);
    }
}
