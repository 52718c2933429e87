/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a store: keys with values, queues, and who waits for a key to be written. No I/O
 * and no locks: the tcp server's thread, the hash store's mutex and the file store's turn guard it.
 *
 * Keys and values come from strangers. Memory that the contents take is counted, waits included,
 * and nothing is added beyond `max_bytes`; keys are hashed with a seed of the process, so
 * that nobody can choose keys that collide.
 */
#ifndef TUTTI_STORE_MAP_H
#define TUTTI_STORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "store/store_buffer.h"

#define STORE_MAP_MAX_BYTES ((size_t)1 << 30) /* of every store */

struct store_map;
struct store_slot;
struct store_wait_node;

/* One connection's wait. Zeroed before first use; `owner` is the user's. */
struct store_wait {
    void *owner;
    size_t pending; /* keys still to be written; 0: not waiting */
    size_t count;   /* of nodes */
    struct store_wait_node *nodes;
    struct store_wait *next_ready;
};

tutti_status store_map_new(size_t max_bytes, struct store_map **ret_map);
void store_map_free(struct store_map *map);

/* Keys with a value; queues do not count. */
size_t store_map_count(const struct store_map *map);

/* The value of `key`, valid until the map changes; false: none. */
bool store_map_get(const struct store_map *map, struct store_slice key,
                   struct store_slice *ret_value);
/* Whether `key` has a value or a queue that is not empty: what CHECK and WAIT look at. */
bool store_map_present(const struct store_map *map, struct store_slice key);

/* These wake everybody who waits for the key. STORE when the map is full or a value would grow
 * beyond TUTTI_STORE_MAX_VALUE, or is no decimal number (add); nothing has changed then. */
tutti_status store_map_set(struct store_map *map, struct store_slice key, struct store_slice value);
tutti_status store_map_append(struct store_map *map, struct store_slice key,
                              struct store_slice value);
tutti_status store_map_add(struct store_map *map, struct store_slice key, int64_t delta,
                           int64_t *ret_value);
/* `ret_value`: what TCPStore replies, that is `desired` when it was stored, else the value that is
 * there, else (no such key) `expected`. Wakes when the key came into being. */
tutti_status store_map_compare_set(struct store_map *map, struct store_slice key,
                                   struct store_slice expected, struct store_slice desired,
                                   struct store_slice *ret_value);
/* Counts an arrival. True in `ret_passed` (and everybody on the key woken) from the
 * `world_size`th on. */
tutti_status store_map_arrive(struct store_map *map, struct store_slice key, int64_t world_size,
                              bool *ret_passed);

bool store_map_delete(struct store_map *map, struct store_slice key);

/* Queues. A push wakes the one who has waited longest for the key. */
tutti_status store_map_push(struct store_map *map, struct store_slice key,
                            struct store_slice value);
size_t store_map_queue_length(const struct store_map *map, struct store_slice key);
/* The front of the queue, and its removal; the front is valid until then. */
bool store_map_front(const struct store_map *map, struct store_slice key,
                     struct store_slice *ret_value);
void store_map_pop(struct store_map *map, struct store_slice key);

/* Walks keys that have a value; start with a zeroed cursor. The map must not change meanwhile. */
struct store_cursor {
    size_t bucket;
    const struct store_slot *slot;
};
bool store_map_next(const struct store_map *map, struct store_cursor *cursor,
                    struct store_slice *ret_key);

/*
 * Starts to wait until `count` keys have each been written once: reads keys by `next_key(keys)`.
 * `wait->pending` is 0 afterwards when all are there. With `always`, present keys are waited for
 * as well (barriers). An earlier wait of the same object is dropped.
 */
tutti_status store_map_wait(struct store_map *map, struct store_wait *wait, size_t count,
                            bool always, struct store_slice (*next_key)(void *keys), void *keys);
/* Ends a wait; whether there was one. */
bool store_map_cancel(struct store_map *map, struct store_wait *wait);
/* The next wait whose keys have all been written, or NULL. */
struct store_wait *store_map_take_ready(struct store_map *map);

/* Reads a decimal number as torch does: leading blanks, a sign, digits, rubbish behind ignored. */
bool store_parse_number(struct store_slice text, int64_t *ret_value);

#endif
