/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, and waits for keys to be written.
 *
 * A wait has a node in the list of each key that it lacks, in the order of arrival. Writing a key takes its
 * nodes away; a wait whose last node goes is put into the list of those that are ready, which the owner of
 * the map takes them from. A push to a queue takes the nodes of one wait only, the first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/store_map_inside.h"

/* Unlinks a node from its slot and queues its wait when that was the last. */
static void release(struct store_map *map, struct store_slot *slot, struct store_wait_node *node)
{
    struct store_wait *wait = node->wait;

    TAILQ_REMOVE(&slot->waiters, node, link);
    node->slot = NULL;
    if (--wait->pending == 0) {
        TAILQ_INSERT_TAIL(&map->ready, wait, ready_link);
        wait->ready = true;
    }
}

void store_map_wake_all(struct store_map *map, struct store_slot *slot)
{
    struct store_wait_node *node;

    while ((node = TAILQ_FIRST(&slot->waiters)))
        release(map, slot, node);
}

tutti_status store_map_push(struct store_map *map, struct slice key, struct slice value)
{
    struct store_slot *slot;
    tutti_status status = store_map_find_or_add(map, key, &slot);

    if (status)
        return status;

    struct queue_item *item = NULL;

    status = store_map_charge(map, sizeof *item + value.size);
    if (!status) {
        item = malloc(sizeof *item + value.size);
        if (!item) {
            map->bytes -= sizeof *item + value.size;
            status =
                error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu bytes of a queue", value.size);
        }
    }
    if (status) {
        store_map_drop_if_empty(map, slot);
        return status;
    }
    item->size = value.size;
    if (value.size)
        memcpy(item->data, value.data, value.size);
    STAILQ_INSERT_TAIL(&slot->queue, item, link);
    slot->queue_length++;

    /* One wait; all its nodes here, since one that names the key twice is released by one write. */
    struct store_wait_node *node = TAILQ_FIRST(&slot->waiters), *next;
    const struct store_wait *first = node ? node->wait : NULL;

    for (; node; node = next) {
        next = TAILQ_NEXT(node, link);
        if (node->wait == first)
            release(map, slot, node);
    }
    return TUTTI_OK;
}

size_t store_map_queue_length(const struct store_map *map, struct slice key)
{
    const struct store_slot *slot = store_map_find(map, key);

    return slot ? slot->queue_length : 0;
}

void store_map_pop(struct store_map *map, struct slice key, struct buffer *out)
{
    struct store_slot *slot = store_map_find(map, key);
    struct queue_item *item = slot ? STAILQ_FIRST(&slot->queue) : NULL;

    if (!item)
        return;
    buffer_put_bytes(out, (struct slice){item->data, item->size});
    STAILQ_REMOVE_HEAD(&slot->queue, link);
    slot->queue_length--;
    map->bytes -= sizeof *item + item->size;
    free(item);
    store_map_drop_if_empty(map, slot);
}

static void nodes_free(struct store_map *map, struct store_wait *wait)
{
    map->bytes -= wait->count * sizeof(struct store_wait_node);
    free(wait->nodes);
    wait->nodes = NULL;
    wait->count = 0;
}

static void forget_ready(struct store_map *map, struct store_wait *wait)
{
    if (wait->ready)
        TAILQ_REMOVE(&map->ready, wait, ready_link);
    wait->ready = false;
}

void store_map_cancel(struct store_map *map, struct store_wait *wait)
{
    for (size_t i = 0; i < wait->count; i++) {
        struct store_slot *slot = wait->nodes[i].slot;

        if (slot) {
            release(map, slot, &wait->nodes[i]);
            store_map_drop_if_empty(map, slot);
        }
    }
    forget_ready(map, wait);
    nodes_free(map, wait);
}

tutti_status store_map_wait(struct store_map *map, struct store_wait *wait, size_t count,
                            bool always, struct slice (*next_key)(void *keys), void *keys)
{
    store_map_cancel(map, wait);

    tutti_status status = store_map_charge(map, count * sizeof(struct store_wait_node));

    if (status)
        return status;
    wait->nodes = calloc(count, sizeof(struct store_wait_node));
    if (!wait->nodes && count) {
        map->bytes -= count * sizeof(struct store_wait_node);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to wait for %zu keys", count);
    }
    wait->count = count;
    for (size_t i = 0; i < count; i++) {
        struct slice key = next_key(keys);
        struct store_wait_node *node = &wait->nodes[i];

        if (!always && store_map_present(map, key))
            continue;
        status = store_map_find_or_add(map, key, &node->slot);
        if (status) {
            store_map_cancel(map, wait);
            return status;
        }
        node->wait = wait;
        TAILQ_INSERT_TAIL(&node->slot->waiters, node, link);
        wait->pending++;
    }
    if (!wait->pending)
        nodes_free(map, wait);
    return TUTTI_OK;
}

struct store_wait *store_map_take_ready(struct store_map *map)
{
    struct store_wait *wait = TAILQ_FIRST(&map->ready);

    if (wait) {
        forget_ready(map, wait);
        nodes_free(map, wait);
    }
    return wait;
}
