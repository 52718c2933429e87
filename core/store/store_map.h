/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a store: keys with values, queues, and waits for a key to be written. No I/O and
 * no locks: the tcp server's thread, the hash store's mutex and the file store's turn guard it.
 *
 * Keys and values come from strangers. Memory that the contents take is counted, waits included,
 * and nothing is added beyond `max_bytes`; keys are hashed with a seed of the process, so
 * that nobody can choose keys that collide.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <tutti/status.h>

#include "base/buffer.h"

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
    bool ready; /* in the map's list of those whose keys have all been written */
    TAILQ_ENTRY(store_wait) ready_link;
};

tutti_status store_map_new(size_t max_bytes, struct store_map **ret_map);
void store_map_free(struct store_map *map);
/* From here on, changes may fill the map as a whole, or with `keep` only its first quarter. */
void store_map_keep_reserve(struct store_map *map, bool keep);

/* Keys with a value; queues do not count. */
size_t store_map_count(const struct store_map *map);

/* The value of `key`, valid until the map changes; false: none. */
bool store_map_get(const struct store_map *map, struct slice key, struct slice *ret_value);
/* Whether `key` has a value or a queue that is not empty: what CHECK and WAIT look at. */
bool store_map_present(const struct store_map *map, struct slice key);

/* These wake all waits for the key. STORE when the map is full or a value would grow beyond
 * TUTTI_STORE_MAX_VALUE, or is no decimal number (add); nothing has changed then. */
tutti_status store_map_set(struct store_map *map, struct slice key, struct slice value);
tutti_status store_map_append(struct store_map *map, struct slice key, struct slice value);
/* The sum wraps: TCPStore does not check it either. Waits are woken when it is at least `wakes_from`. */
tutti_status store_map_add(struct store_map *map, struct slice key, int64_t delta,
                           int64_t wakes_from, int64_t *ret_value);
/* `ret_value`: what TCPStore replies, that is `desired` when it was stored, else the value that is
 * there, else (no such key) `expected`. Wakes when the key came into being. */
tutti_status store_map_compare_set(struct store_map *map, struct slice key, struct slice expected,
                                   struct slice desired, struct slice *ret_value);
bool store_map_delete(struct store_map *map, struct slice key);

/* Queues. A push wakes the wait that is oldest for the key. */
tutti_status store_map_push(struct store_map *map, struct slice key, struct slice value);
size_t store_map_queue_length(const struct store_map *map, struct slice key);
/* Moves the front of the queue, if there is one, behind what `out` holds: length and bytes. */
void store_map_pop(struct store_map *map, struct slice key, struct buffer *out);

/* Adds the keys that have a value, in any order: length and bytes of each. */
void store_map_put_keys(const struct store_map *map, struct buffer *out);

/*
 * Starts to wait until `count` keys have each been written once: reads keys by `next_key(keys)`.
 * `wait->pending` is 0 afterwards when all are there. With `always`, present keys are waited for
 * as well (barriers). An earlier wait of the same object is dropped.
 */
tutti_status store_map_wait(struct store_map *map, struct store_wait *wait, size_t count,
                            bool always, struct slice (*next_key)(void *keys), void *keys);
/* Ends a wait, if there is one. */
void store_map_cancel(struct store_map *map, struct store_wait *wait);
/* The next wait whose keys have all been written, or NULL. */
struct store_wait *store_map_take_ready(struct store_map *map);

/* Reads a decimal number as torch does: leading blanks, a sign, digits, rubbish behind ignored. */
bool store_parse_number(struct slice text, int64_t *ret_value);
