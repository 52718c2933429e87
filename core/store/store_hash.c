/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one process: the map under a mutex. A thread that waits for keys looks again after
 * each write.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "store/store.h"
#include "store/store_map.h"

struct hash_store {
    tutti_store base;
    pthread_mutex_t mutex;
    pthread_cond_t written;
    struct store_map *map;
};

static void hash_close(tutti_store *store)
{
    struct hash_store *hash = (struct hash_store *)store;

    store_map_free(hash->map);
    pthread_cond_destroy(&hash->written);
    pthread_mutex_destroy(&hash->mutex);
    free(hash);
}

static bool all_present(const struct hash_store *hash, const struct store_call *call)
{
    size_t count = call->count;

    while (count && store_map_present(hash->map, slice_of(call->keys[count - 1])))
        count--;
    return count == 0;
}

static tutti_status wait_locked(struct hash_store *hash, const struct store_call *call)
{
    bool in_time = true;

    while (!all_present(hash, call)) {
        if (!in_time)
            return store_keys_missing(call, "the store of this process");
        in_time = thread_condition_wait(&hash->written, &hash->mutex, call->time.deadline_ns);
    }
    return TUTTI_OK;
}

static tutti_status call_locked(struct hash_store *hash, struct store_call *call)
{
    struct store_map *map = hash->map;
    const struct slice key = slice_of(call->count ? call->keys[0] : "");
    struct slice value;
    tutti_status status = TUTTI_OK;

    switch (call->opcode) {
    case STORE_SET:
        return store_map_set(map, key, call->value);
    case STORE_APPEND:
        return store_map_append(map, key, call->value);
    case STORE_ADD:
        return store_map_add(map, key, call->delta, INT64_MIN, &call->number);
    case STORE_COMPARE_SET:
        status = store_map_compare_set(map, key, call->expected, call->value, &value);
        return status ? status : store_value_copy(value, call->ret_values);
    case STORE_WAIT:
        return wait_locked(hash, call);
    case STORE_GET:
        status = wait_locked(hash, call);
        return status || !store_map_get(map, key, &value)
                   ? status
                   : store_value_copy(value, call->ret_values);
    case STORE_CHECK:
        call->number = all_present(hash, call);
        return TUTTI_OK;
    case STORE_DELETE_KEY:
        call->number = store_map_delete(map, key);
        return TUTTI_OK;
    default: /* STORE_GETNUMKEYS */
        call->number = (int64_t)store_map_count(map);
        return TUTTI_OK;
    }
}

static tutti_status hash_call(tutti_store *store, struct store_call *call)
{
    struct hash_store *hash = (struct hash_store *)store;

    pthread_mutex_lock(&hash->mutex);
    tutti_status status = call_locked(hash, call);
    if (!status && store_call_writes(call))
        pthread_cond_broadcast(&hash->written);
    pthread_mutex_unlock(&hash->mutex);
    return status;
}

static void hash_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    (void)store;
    strcpy(ret_address, "127.0.0.1");
}

static const struct store_ops hash_ops = {
    .close = hash_close,
    .call = hash_call,
    .local_address = hash_local_address,
};

tutti_status tutti_store_open_hash(tutti_store **ret_store)
{
    if (!ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_store must not be NULL");

    struct hash_store *hash = store_new(sizeof *hash, &hash_ops);

    if (!hash)
        return TUTTI_ERR_NO_MEMORY;

    tutti_status status = store_map_new(STORE_MAP_MAX_BYTES, &hash->map);

    if (status) {
        free(hash);
        return status;
    }
    thread_condition_init(&hash->written);
    pthread_mutex_init(&hash->mutex, NULL);
    *ret_store = &hash->base;
    return TUTTI_OK;
}
