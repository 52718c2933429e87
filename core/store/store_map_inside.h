/* SPDX-License-Identifier: Apache-2.0 */
/* What store_map.c (the table, values) and store_map_wait.c (queues, waits) share. */
#pragma once

#include "store/store_map.h"

struct store_wait_node {
    struct store_wait *wait;
    struct store_slot *slot; /* NULL: not linked */
    TAILQ_ENTRY(store_wait_node) link;
};

struct queue_item {
    STAILQ_ENTRY(queue_item) link;
    size_t size;
    uint8_t data[];
};

struct store_slot {
    struct store_slot *next;
    uint64_t hash;
    bool has_value;
    uint8_t *value;
    size_t value_size, value_capacity;
    STAILQ_HEAD(, queue_item) queue;
    size_t queue_length;
    TAILQ_HEAD(, store_wait_node) waiters;
    size_t key_size;
    uint8_t key[];
};

struct store_map {
    struct store_slot **buckets;
    size_t bucket_mask;
    size_t slots, values;
    size_t bytes, max_bytes;
    size_t allowed; /* of max_bytes, to who makes the change */
    uint64_t seed;
    TAILQ_HEAD(, store_wait) ready;
};

/* Counts `bytes` more, unless that is more than the map may hold. */
tutti_status store_map_charge(struct store_map *map, size_t bytes);
struct store_slot *store_map_find(const struct store_map *map, struct slice key);
tutti_status store_map_find_or_add(struct store_map *map, struct slice key,
                                   struct store_slot **ret_slot);
/* Removes a slot that nothing needs any more. */
void store_map_drop_if_empty(struct store_map *map, struct store_slot *slot);
void store_map_wake_all(struct store_map *map, struct store_slot *slot);
