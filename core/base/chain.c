/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chain.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 64 };

struct chain_block {
    _Alignas(ALIGN) struct chain_block *next;
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
    chain->first = block;
    return block + 1;
}

void chain_free_all(struct chain *chain)
{
    while (chain->first) {
        struct chain_block *block = chain->first;

        chain->first = block->next;
        free(block);
    }
}
