/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed together: blocks from malloc() in a chain. Several chains may share them. */
#pragma once

#include <stddef.h>

struct chain_block;

struct chain {
    struct chain_block *first; /* NULL: empty */
};

/* `bytes` of uninitialized memory, aligned to 64; NULL: there is none. */
void *chain_allocate(struct chain *chain, size_t bytes);
void chain_free_all(struct chain *chain);

struct chain chain_share_all(const struct chain *chain);

/* A chain of the same memory, which is freed with the last of them. Nothing may be allocated in either any more. */
static inline struct chain chain_share(const struct chain *chain)
{
    return chain->first ? chain_share_all(chain) : *chain;
}

/* Most chains are empty. */
static inline void chain_free(struct chain *chain)
{
    if (chain->first)
        chain_free_all(chain);
}
