/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one process: the map under a mutex. Who waits for keys looks again whenever
 * somebody has written one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/store.h"
#include "store/store_map.h"

struct hash_store {
    tutti_store base;
    pthread_mutex_t mutex;
    pthread_cond_t written;
    struct store_map *map;
};

static struct hash_store *enter(tutti_store *store)
{
    struct hash_store *hash = (struct hash_store *)store;

    pthread_mutex_lock(&hash->mutex);
    return hash;
}

/* Leaves after a write that may have made a key. */
static tutti_status leave(struct hash_store *hash, tutti_status status)
{
    if (!status)
        pthread_cond_broadcast(&hash->written);
    pthread_mutex_unlock(&hash->mutex);
    return status;
}

static struct store_slice slice(const char *key)
{
    return (struct store_slice){key, strlen(key)};
}

static void hash_close(tutti_store *store)
{
    struct hash_store *hash = (struct hash_store *)store;

    store_map_free(hash->map);
    pthread_cond_destroy(&hash->written);
    pthread_mutex_destroy(&hash->mutex);
    free(hash);
}

static tutti_status hash_set(tutti_store *store, const char *key, struct store_slice value,
                             const struct store_time *time)
{
    struct hash_store *hash = enter(store);

    (void)time;
    return leave(hash, store_map_set(hash->map, slice(key), value));
}

static bool all_present(const struct hash_store *hash, const char *const *keys, size_t count)
{
    while (count && store_map_present(hash->map, slice(keys[count - 1])))
        count--;
    return count == 0;
}

static tutti_status wait_locked(struct hash_store *hash, const char *const *keys, size_t count,
                                const struct store_time *time)
{
    char names[STORE_NAMES_ROOM];
    bool in_time = true;

    while (!all_present(hash, keys, count)) {
        if (!in_time)
            return error_set(TUTTI_ERR_TIMEOUT,
                             "waited %" PRId64 " ms for %s in the store of this process", time->ms,
                             store_name_keys(names, keys, count));
        in_time = store_condition_wait(&hash->written, &hash->mutex, time->deadline_ns);
    }
    return TUTTI_OK;
}

static tutti_status hash_get(tutti_store *store, const char *key, const struct store_time *time,
                             tutti_store_value *ret_value)
{
    struct hash_store *hash = enter(store);
    struct store_slice value;
    tutti_status status = wait_locked(hash, &key, 1, time);

    if (!status && store_map_get(hash->map, slice(key), &value))
        status = store_value_copy(value, ret_value);
    pthread_mutex_unlock(&hash->mutex);
    return status;
}

static tutti_status hash_add(tutti_store *store, const char *key, int64_t delta,
                             const struct store_time *time, int64_t *ret_value)
{
    struct hash_store *hash = enter(store);

    (void)time;
    return leave(hash, store_map_add(hash->map, slice(key), delta, ret_value));
}

static tutti_status hash_compare_set(tutti_store *store, const char *key,
                                     struct store_slice expected, struct store_slice desired,
                                     const struct store_time *time, tutti_store_value *ret_value)
{
    struct hash_store *hash = enter(store);
    struct store_slice value;
    tutti_status status = store_map_compare_set(hash->map, slice(key), expected, desired, &value);

    (void)time;
    if (!status)
        status = store_value_copy(value, ret_value);
    return leave(hash, status);
}

static tutti_status hash_check(tutti_store *store, const char *const *keys, size_t count,
                               const struct store_time *time, bool *ret_present)
{
    struct hash_store *hash = enter(store);

    (void)time;
    *ret_present = all_present(hash, keys, count);
    pthread_mutex_unlock(&hash->mutex);
    return TUTTI_OK;
}

static tutti_status hash_wait(tutti_store *store, const char *const *keys, size_t count,
                              const struct store_time *time)
{
    struct hash_store *hash = enter(store);
    tutti_status status = wait_locked(hash, keys, count, time);

    pthread_mutex_unlock(&hash->mutex);
    return status;
}

static tutti_status hash_append(tutti_store *store, const char *key, struct store_slice value,
                                const struct store_time *time)
{
    struct hash_store *hash = enter(store);

    (void)time;
    return leave(hash, store_map_append(hash->map, slice(key), value));
}

static tutti_status hash_remove(tutti_store *store, const char *key, const struct store_time *time,
                                bool *ret_existed)
{
    struct hash_store *hash = enter(store);

    (void)time;
    *ret_existed = store_map_delete(hash->map, slice(key));
    pthread_mutex_unlock(&hash->mutex);
    return TUTTI_OK;
}

static tutti_status hash_num_keys(tutti_store *store, const struct store_time *time,
                                  int64_t *ret_count)
{
    struct hash_store *hash = enter(store);

    (void)time;
    *ret_count = (int64_t)store_map_count(hash->map);
    pthread_mutex_unlock(&hash->mutex);
    return TUTTI_OK;
}

static void hash_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    (void)store;
    strcpy(ret_address, "127.0.0.1");
}

static const struct store_ops hash_ops = {
    .close = hash_close,
    .set = hash_set,
    .get = hash_get,
    .add = hash_add,
    .compare_set = hash_compare_set,
    .check = hash_check,
    .wait = hash_wait,
    .append = hash_append,
    .remove = hash_remove,
    .num_keys = hash_num_keys,
    .local_address = hash_local_address,
};

tutti_status tutti_store_open_hash(tutti_store **ret_store)
{
    if (!ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the place for the store is NULL");

    struct hash_store *hash = calloc(1, sizeof *hash);

    if (!hash)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");

    tutti_status status = store_condition_init(&hash->written);

    if (status)
        goto no_condition;
    status = store_map_new(STORE_MAP_MAX_BYTES, &hash->map);
    if (status)
        goto no_map;

    int error = pthread_mutex_init(&hash->mutex, NULL);

    if (error) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot make a mutex");
        goto no_mutex;
    }
    store_init(&hash->base, &hash_ops);
    *ret_store = &hash->base;
    return TUTTI_OK;

no_mutex:
    store_map_free(hash->map);
no_map:
    pthread_cond_destroy(&hash->written);
no_condition:
    free(hash);
    return status;
}
