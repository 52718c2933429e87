/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the engine: items of one size, and payload buffers in powers of two. What was given
 * back is handed out again, so that traffic in steady state allocates nothing. Everything can fail.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct p2p_slab;
struct p2p_item;

struct p2p_pool {
    size_t item_bytes; /* a multiple of 16 */
    struct p2p_item *free;
    struct p2p_slab *slabs;
};

void p2p_pool_init(struct p2p_pool *pool, size_t item_bytes);
void p2p_pool_fini(struct p2p_pool *pool);
/* Uninitialised memory, or NULL. */
void *p2p_pool_take(struct p2p_pool *pool);
void p2p_pool_give(struct p2p_pool *pool, void *memory);

enum {
    P2P_BUFFER_MAX = 1 << 20, /* pieces of a payload are no longer, unless a plugin asks for it */
    P2P_BUFFER_SHIFT_MIN = 6,
    P2P_BUFFER_CLASSES = 20 - P2P_BUFFER_SHIFT_MIN + 1
};

struct p2p_buffer {
    struct p2p_buffer *next;
    uint32_t class;
    _Alignas(16) uint8_t data[];
};

struct p2p_buffers {
    struct p2p_pool small[7]; /* up to 4 KiB, carved from slabs */
    struct p2p_buffer *free[P2P_BUFFER_CLASSES];
    size_t kept; /* bytes in `free` */
};

void p2p_buffers_init(struct p2p_buffers *buffers);
void p2p_buffers_fini(struct p2p_buffers *buffers);
/* At least `bytes`, or NULL. What is longer than P2P_BUFFER_MAX is not kept for the next message. */
struct p2p_buffer *p2p_buffer_take(struct p2p_buffers *buffers, uint64_t bytes);
/* NULL is fine. */
void p2p_buffer_give(struct p2p_buffers *buffers, struct p2p_buffer *buffer);
