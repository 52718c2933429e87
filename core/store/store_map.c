/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of chains. A key has a slot while anything needs one: a value, a queue, a wait.
 * Values keep their room when they shrink, so that a counter is not allocated again with each add.
 * What a slot takes is charged before it is allocated and given back with it.
 */
#include "store/store_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tutti/store.h>

#include "base/error.h"
#include "store/store_map_inside.h"

enum { FIRST_BUCKETS = 64, NUMBER_MAX = 24 };

tutti_status store_map_new(size_t max_bytes, struct store_map **ret_map)
{
    struct store_map *map = calloc(1, sizeof *map);

    if (map)
        map->buckets = calloc(FIRST_BUCKETS, sizeof(struct store_slot *));
    if (!map || !map->buckets) {
        free(map);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");
    }
    map->bucket_mask = FIRST_BUCKETS - 1;
    map->max_bytes = map->allowed = max_bytes;
    TAILQ_INIT(&map->ready);
    if (getrandom(&map->seed, sizeof map->seed, GRND_NONBLOCK) != (ssize_t)sizeof map->seed)
        map->seed =
            (uint64_t)(uintptr_t)map; /* before the kernel's pool is filled: still not constant */
    *ret_map = map;
    return TUTTI_OK;
}

static void slot_free(struct store_slot *slot)
{
    struct queue_item *item;

    while ((item = STAILQ_FIRST(&slot->queue))) {
        STAILQ_REMOVE_HEAD(&slot->queue, link);
        free(item);
    }
    free(slot->value);
    free(slot);
}

void store_map_free(struct store_map *map)
{
    if (!map)
        return;
    for (size_t i = 0; i <= map->bucket_mask; i++) {
        while (map->buckets[i]) {
            struct store_slot *slot = map->buckets[i];

            map->buckets[i] = slot->next;
            slot_free(slot);
        }
    }
    free(map->buckets);
    free(map);
}

void store_map_keep_reserve(struct store_map *map, bool keep)
{
    map->allowed = keep ? map->max_bytes / 4 : map->max_bytes;
}

size_t store_map_count(const struct store_map *map)
{
    return map->values;
}

tutti_status store_map_charge(struct store_map *map, size_t bytes)
{
    if (map->bytes > map->allowed || bytes > map->allowed - map->bytes)
        return error_set(
            TUTTI_ERR_STORE,
            "the store is full: %zu bytes in %zu keys, of at most %zu bytes%s; delete keys",
            map->bytes, map->values, map->allowed,
            map->allowed < map->max_bytes ? " for clients that the server does not know" : "");
    map->bytes += bytes;
    return TUTTI_OK;
}

struct store_slot *store_map_find(const struct store_map *map, struct slice key)
{
    uint64_t hash = XXH3_64bits_withSeed(key.data, key.size, map->seed);
    struct store_slot *slot = map->buckets[hash & map->bucket_mask];

    while (slot && (slot->hash != hash || slot->key_size != key.size ||
                    (key.size && memcmp(slot->key, key.data, key.size) != 0)))
        slot = slot->next;
    return slot;
}

/* More buckets; without memory for them the chains only grow longer. */
static void grow(struct store_map *map)
{
    size_t count = 2 * (map->bucket_mask + 1);
    struct store_slot **buckets = calloc(count, sizeof(struct store_slot *));

    if (!buckets)
        return;
    for (size_t i = 0; i <= map->bucket_mask; i++) {
        while (map->buckets[i]) {
            struct store_slot *slot = map->buckets[i];

            map->buckets[i] = slot->next;
            slot->next = buckets[slot->hash & (count - 1)];
            buckets[slot->hash & (count - 1)] = slot;
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_mask = count - 1;
}

tutti_status store_map_find_or_add(struct store_map *map, struct slice key,
                                   struct store_slot **ret_slot)
{
    struct store_slot *slot = store_map_find(map, key);

    if (slot) {
        *ret_slot = slot;
        return TUTTI_OK;
    }

    tutti_status status = store_map_charge(map, sizeof *slot + key.size);

    if (status)
        return status;
    slot = calloc(1, sizeof *slot + key.size);
    if (!slot) {
        map->bytes -= sizeof *slot + key.size;
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a key of %zu bytes", key.size);
    }
    if (map->slots > map->bucket_mask)
        grow(map);
    slot->hash = XXH3_64bits_withSeed(key.data, key.size, map->seed);
    STAILQ_INIT(&slot->queue);
    TAILQ_INIT(&slot->waiters);
    slot->key_size = key.size;
    if (key.size)
        memcpy(slot->key, key.data, key.size);
    slot->next = map->buckets[slot->hash & map->bucket_mask];
    map->buckets[slot->hash & map->bucket_mask] = slot;
    map->slots++;
    *ret_slot = slot;
    return TUTTI_OK;
}

void store_map_drop_if_empty(struct store_map *map, struct store_slot *slot)
{
    if (slot->has_value || slot->queue_length || !TAILQ_EMPTY(&slot->waiters))
        return;

    struct store_slot **link = &map->buckets[slot->hash & map->bucket_mask];

    while (*link != slot)
        link = &(*link)->next;
    *link = slot->next;
    map->slots--;
    map->bytes -= sizeof *slot + slot->key_size + slot->value_capacity;
    slot_free(slot);
}

/* Room for a value of `size` bytes in the slot, what is there kept. */
static tutti_status make_room(struct store_map *map, struct store_slot *slot, size_t size)
{
    if (size <= slot->value_capacity)
        return TUTTI_OK;

    size_t capacity = size;

    if (slot->has_value && capacity < slot->value_capacity * 2) /* it is being appended to */
        capacity = slot->value_capacity * 2;

    tutti_status status = store_map_charge(map, capacity - slot->value_capacity);

    if (status)
        return status;

    uint8_t *value = realloc(slot->value, capacity);

    if (!value) {
        map->bytes -= capacity - slot->value_capacity;
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a value of %zu bytes", size);
    }
    slot->value = value;
    slot->value_capacity = capacity;
    return TUTTI_OK;
}

/* Writes `size` bytes at `offset`, where the value then ends. */
static tutti_status put(struct store_map *map, struct slice key, bool append, struct slice value,
                        struct store_slot **ret_slot)
{
    struct store_slot *slot;
    tutti_status status = store_map_find_or_add(map, key, &slot);

    if (status)
        return status;

    size_t offset = append && slot->has_value ? slot->value_size : 0;

    if (value.size > TUTTI_STORE_MAX_VALUE - offset)
        status = error_set(TUTTI_ERR_STORE, "a value of %zu bytes is more than the limit of %u",
                           offset + value.size, TUTTI_STORE_MAX_VALUE);
    else
        status = make_room(map, slot, offset + value.size);
    if (status) {
        store_map_drop_if_empty(map, slot);
        return status;
    }
    if (value.size)
        memcpy(slot->value + offset, value.data, value.size);
    slot->value_size = offset + value.size;
    map->values += !slot->has_value;
    slot->has_value = true;
    *ret_slot = slot;
    return TUTTI_OK;
}

static tutti_status put_and_wake(struct store_map *map, struct slice key, bool append,
                                 struct slice value)
{
    struct store_slot *slot;
    tutti_status status = put(map, key, append, value, &slot);

    if (!status)
        store_map_wake_all(map, slot);
    return status;
}

tutti_status store_map_set(struct store_map *map, struct slice key, struct slice value)
{
    return put_and_wake(map, key, false, value);
}

tutti_status store_map_append(struct store_map *map, struct slice key, struct slice value)
{
    return put_and_wake(map, key, true, value);
}

bool store_map_get(const struct store_map *map, struct slice key, struct slice *ret_value)
{
    const struct store_slot *slot = store_map_find(map, key);

    if (!slot || !slot->has_value)
        return false;
    *ret_value = (struct slice){slot->value, slot->value_size};
    return true;
}

bool store_map_present(const struct store_map *map, struct slice key)
{
    const struct store_slot *slot = store_map_find(map, key);

    return slot && (slot->has_value || slot->queue_length);
}

bool store_parse_number(struct slice text, int64_t *ret_value)
{
    if (!text.size)
        return false;

    const uint8_t *at = text.data, *end = at + text.size;
    bool negative = false;
    int64_t value = 0;

    while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
        at++;
    if (at < end && (*at == '-' || *at == '+'))
        negative = *at++ == '-';
    if (at == end || *at < '0' || *at > '9')
        return false;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        int digit = negative ? '0' - *at : *at - '0';

        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

tutti_status store_map_add(struct store_map *map, struct slice key, int64_t delta,
                           int64_t wakes_from, int64_t *ret_value)
{
    struct slice old;
    struct store_slot *slot = NULL;
    int64_t value = 0;

    if (store_map_get(map, key, &old) && !store_parse_number(old, &value))
        return error_set(TUTTI_ERR_STORE,
                         "the value of \"%.*s\" is not a decimal number, so tutti cannot add to it",
                         (int)key.size, (const char *)key.data);
    value = (int64_t)((uint64_t)value + (uint64_t)delta);

    char text[NUMBER_MAX];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    tutti_status status = put(map, key, false, (struct slice){text, (size_t)length}, &slot);

    if (status)
        return status;
    if (value >= wakes_from)
        store_map_wake_all(map, slot);
    *ret_value = value;
    return TUTTI_OK;
}

tutti_status store_map_compare_set(struct store_map *map, struct slice key, struct slice expected,
                                   struct slice desired, struct slice *ret_value)
{
    struct slice old = {NULL, 0};
    bool exists = store_map_get(map, key, &old);

    if (!slice_equal(old, expected)) {
        *ret_value = exists ? old : expected;
        return TUTTI_OK;
    }

    struct store_slot *slot;
    tutti_status status = put(map, key, false, desired, &slot);

    if (status)
        return status;
    if (!exists)
        store_map_wake_all(map, slot);
    *ret_value = desired;
    return TUTTI_OK;
}

bool store_map_delete(struct store_map *map, struct slice key)
{
    struct store_slot *slot = store_map_find(map, key);

    if (!slot || !slot->has_value)
        return false;
    free(slot->value);
    map->bytes -= slot->value_capacity;
    slot->value = NULL;
    slot->value_size = slot->value_capacity = 0;
    slot->has_value = false;
    map->values--;
    store_map_drop_if_empty(map, slot);
    return true;
}

void store_map_put_keys(const struct store_map *map, struct buffer *out)
{
    for (size_t i = 0; i <= map->bucket_mask && !out->failed; i++)
        for (const struct store_slot *slot = map->buckets[i]; slot; slot = slot->next)
            if (slot->has_value)
                buffer_put_bytes(out, (struct slice){slot->key, slot->key_size});
}
