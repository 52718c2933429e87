/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p/p2p_pool.h"

#include <stdlib.h>

/* AddressSanitizer sees the use of what was given back, as it would with free(). */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISONS 1
#endif
#endif
#if defined(POOL_POISONS)
#include <sanitizer/asan_interface.h>
#define POISON(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

enum {
    SLAB_BYTES = 1 << 16,
    SMALL_CLASSES = 7,
    /* Large free buffers kept for the next message: what all members' credits add up to. */
    KEEP_BYTES = 64 << 20
};

struct p2p_item {
    struct p2p_item *next;
};

struct p2p_slab {
    struct p2p_slab *next;
    _Alignas(16) uint8_t items[];
};

void p2p_pool_init(struct p2p_pool *pool, size_t item_bytes)
{
    *pool = (struct p2p_pool){.item_bytes = (item_bytes + 15) & ~(size_t)15};
}

void p2p_pool_fini(struct p2p_pool *pool)
{
    while (pool->slabs) {
        struct p2p_slab *next = pool->slabs->next;

        UNPOISON(pool->slabs->items, SLAB_BYTES);
        free(pool->slabs);
        pool->slabs = next;
    }
    pool->free = NULL;
}

static int grow(struct p2p_pool *pool)
{
    struct p2p_slab *slab = malloc(sizeof *slab + SLAB_BYTES);

    if (!slab)
        return -1;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t at = 0; at + pool->item_bytes <= SLAB_BYTES; at += pool->item_bytes)
        p2p_pool_give(pool, slab->items + at);
    return 0;
}

void *p2p_pool_take(struct p2p_pool *pool)
{
    if (!pool->free && grow(pool) < 0)
        return NULL;

    struct p2p_item *item = pool->free;
    UNPOISON(item, pool->item_bytes);
    pool->free = item->next; /* NOLINT: grow() has filled it */
    return item;
}

void p2p_pool_give(struct p2p_pool *pool, void *memory)
{
    struct p2p_item *item = memory;

    item->next = pool->free;
    pool->free = item;
    POISON(item, pool->item_bytes);
}

static size_t class_bytes(uint32_t class)
{
    return (size_t)1 << (class + P2P_BUFFER_SHIFT_MIN);
}

void p2p_buffers_init(struct p2p_buffers *buffers)
{
    *buffers = (struct p2p_buffers){0};
    for (uint32_t class = 0; class < SMALL_CLASSES; class ++)
        p2p_pool_init(&buffers->small[class], sizeof(struct p2p_buffer) + class_bytes(class));
}

void p2p_buffers_fini(struct p2p_buffers *buffers)
{
    for (uint32_t class = 0; class < SMALL_CLASSES; class ++)
        p2p_pool_fini(&buffers->small[class]);
    for (uint32_t class = 0; class < P2P_BUFFER_CLASSES; class ++) {
        while (buffers->free[class]) {
            struct p2p_buffer *next = buffers->free[class]->next;

            free(buffers->free[class]);
            buffers->free[class] = next;
        }
    }
}

struct p2p_buffer *p2p_buffer_take(struct p2p_buffers *buffers, uint64_t bytes)
{
    uint32_t class = 0;
    struct p2p_buffer *buffer;

    while (class < P2P_BUFFER_CLASSES && class_bytes(class) < bytes)
        class ++;
    if (class == P2P_BUFFER_CLASSES) {
        buffer = malloc(sizeof *buffer + bytes);
    } else if (class < SMALL_CLASSES) {
        buffer = p2p_pool_take(&buffers->small[class]);
    } else if ((buffer = buffers->free[class])) {
        buffers->free[class] = buffer->next;
        buffers->kept -= class_bytes(class);
    } else {
        buffer = malloc(sizeof *buffer + class_bytes(class));
    }
    if (buffer)
        buffer->class = class;
    return buffer;
}

void p2p_buffer_give(struct p2p_buffers *buffers, struct p2p_buffer *buffer)
{
    if (!buffer)
        return;

    uint32_t class = buffer->class;
    if (class < SMALL_CLASSES) {
        p2p_pool_give(&buffers->small[class], buffer);
    } else if (class == P2P_BUFFER_CLASSES || buffers->kept + class_bytes(class) > KEEP_BYTES) {
        free(buffer);
    } else {
        buffer->next = buffers->free[class];
        buffers->free[class] = buffer;
        buffers->kept += class_bytes(class);
    }
}
