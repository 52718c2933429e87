/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { DEFAULT_TIMEOUT_MS = 300 * 1000, NAMES_SHOWN = 4 };

void store_init(tutti_store *store, const struct store_ops *ops)
{
    store->ops = ops;
    store->pid = getpid();
    atomic_init(&store->references, 1);
}

tutti_status store_time_start(int64_t timeout_ms, struct store_time *ret_time)
{
    if (timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "a time-out of %" PRId64 " ms is negative; 0 is the default", timeout_ms);
    if (!timeout_ms)
        timeout_ms = DEFAULT_TIMEOUT_MS;
    *ret_time = (struct store_time){timeout_ms, clock_deadline_ms(timeout_ms)};
    return TUTTI_OK;
}

tutti_status store_value_allocate(size_t size, tutti_store_value *ret_value)
{
    char *data = malloc(size + 1);

    if (!data)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a value of %zu bytes", size);
    data[size] = 0;
    *ret_value = (tutti_store_value){data, size};
    return TUTTI_OK;
}

tutti_status store_value_copy(struct store_slice bytes, tutti_store_value *ret_value)
{
    tutti_status status = store_value_allocate(bytes.size, ret_value);

    if (!status && bytes.size)
        memcpy(ret_value->data, bytes.data, bytes.size);
    return status;
}

void tutti_store_value_free(tutti_store_value *value)
{
    if (!value)
        return;
    free(value->data);
    *value = (tutti_store_value){0};
}

const char *store_name_keys(char names[STORE_NAMES_ROOM], const char *const *keys, size_t count)
{
    const size_t shown = count < NAMES_SHOWN ? count : NAMES_SHOWN;
    size_t used = 0;

    for (size_t i = 0; i < shown; i++) {
        int n = snprintf(names + used, STORE_NAMES_ROOM - used, "%s\"/%.*s\"", i ? ", " : "",
                         TEXT_CUT(keys[i], 100));

        used += (size_t)n;
    }
    if (count > shown)
        (void)snprintf(names + used, STORE_NAMES_ROOM - used, " and %zu more", count - shown);
    return names;
}

void store_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    *ret_address = 0;
    if (store->ops->local_address)
        store->ops->local_address(store, ret_address);
}

/* What every call begins with. */
static tutti_status enter(const tutti_store *store, int64_t timeout_ms, struct store_time *ret_time)
{
    if (!store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the store is NULL");
    if (store->pid != getpid())
        return error_set(TUTTI_ERR_FORKED,
                         "this store was opened by process %d, before the fork; a child "
                         "opens its own",
                         (int)store->pid);
    return store_time_start(timeout_ms, ret_time);
}

static tutti_status check_key(const char *key)
{
    if (!key)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the key is NULL");
    if (strnlen(key, TUTTI_STORE_MAX_KEY) >= TUTTI_STORE_MAX_KEY)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "the key \"/%.*s…\" has more than %u bytes, prefixes and the leading '/' included",
            TEXT_CUT(key, 64), TUTTI_STORE_MAX_KEY);
    return TUTTI_OK;
}

static tutti_status check_keys(const char *const *keys, size_t count)
{
    if (count > TUTTI_STORE_MAX_KEYS)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%zu keys in one call, at most %u are allowed",
                         count, TUTTI_STORE_MAX_KEYS);
    if (count && !keys)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the list of keys is NULL");
    for (size_t i = 0; i < count; i++) {
        tutti_status status = check_key(keys[i]);

        if (status)
            return status;
    }
    return TUTTI_OK;
}

static tutti_status check_value(const void *data, size_t size)
{
    if (!data && size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a value of %zu bytes at NULL", size);
    if (size > TUTTI_STORE_MAX_VALUE)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a value of %zu bytes, at most %u are allowed",
                         size, TUTTI_STORE_MAX_VALUE);
    return TUTTI_OK;
}

static tutti_status check_result(const void *ret)
{
    return ret ? TUTTI_OK
               : error_set(TUTTI_ERR_INVALID_ARGUMENT, "the place for the result is NULL");
}

tutti_store *tutti_store_ref(tutti_store *store)
{
    if (store)
        atomic_fetch_add_explicit(&store->references, 1, memory_order_relaxed);
    return store;
}

void tutti_store_unref(tutti_store *store)
{
    /* In a forked child the handle stays as it is: its locks may be held by threads that are not
     * here, and the connection is the parent's. */
    if (!store || store->pid != getpid())
        return;
    if (atomic_fetch_sub_explicit(&store->references, 1, memory_order_acq_rel) != 1)
        return;
    store->ops->close(store);
}

tutti_status store_clone(tutti_store *store, int64_t timeout_ms, tutti_store **ret_store)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (status)
        return status;
    if (store->ops->clone)
        return store->ops->clone(store, &time, ret_store);
    *ret_store = tutti_store_ref(store);
    return TUTTI_OK;
}

tutti_status store_server_lost(const char *server)
{
    return error_set(TUTTI_ERR_PEER_LOST, "%s, was lost or never came", server);
}

bool store_is_gone(tutti_store *store, int64_t ms)
{
    static const char *const any = "tutti";
    int32_t present;

    return tutti_store_check(store, &any, 1, ms, &present) == TUTTI_ERR_STORE;
}

static tutti_status enter_to_write(tutti_store *store, const char *key, const void *data,
                                   size_t size, int64_t timeout_ms, struct store_time *ret_time)
{
    tutti_status status = enter(store, timeout_ms, ret_time);

    if (!status)
        status = check_key(key);
    return status ? status : check_value(data, size);
}

tutti_status tutti_store_set(tutti_store *store, const char *key, const void *data, size_t size,
                             int64_t timeout_ms)
{
    struct store_time time;
    tutti_status status = enter_to_write(store, key, data, size, timeout_ms, &time);

    return status ? error_named(status)
                  : store->ops->set(store, key, (struct store_slice){data, size}, &time);
}

tutti_status tutti_store_get(tutti_store *store, const char *key, int64_t timeout_ms,
                             tutti_store_value *ret_value)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_key(key);
    if (!status)
        status = check_result(ret_value);
    return status ? error_named(status) : store->ops->get(store, key, &time, ret_value);
}

tutti_status tutti_store_add(tutti_store *store, const char *key, int64_t delta, int64_t timeout_ms,
                             int64_t *ret_value)
{
    struct store_time time;
    int64_t value;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_key(key);
    if (!status)
        status = store->ops->add(store, key, delta, &time, &value);
    if (!status && ret_value)
        *ret_value = value;
    return error_named(status);
}

tutti_status tutti_store_compare_set(tutti_store *store, const char *key, const void *expected,
                                     size_t expected_size, const void *desired, size_t desired_size,
                                     int64_t timeout_ms, tutti_store_value *ret_value)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_key(key);
    if (!status)
        status = check_value(expected, expected_size);
    if (!status)
        status = check_value(desired, desired_size);
    if (!status)
        status = check_result(ret_value);
    return status
               ? error_named(status)
               : store->ops->compare_set(store, key, (struct store_slice){expected, expected_size},
                                         (struct store_slice){desired, desired_size}, &time,
                                         ret_value);
}

tutti_status tutti_store_check(tutti_store *store, const char *const *keys, size_t count,
                               int64_t timeout_ms, int32_t *ret_present)
{
    struct store_time time;
    bool present = true;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_keys(keys, count);
    if (!status)
        status = check_result(ret_present);
    if (!status && count)
        status = store->ops->check(store, keys, count, &time, &present);
    if (!status)
        *ret_present = present;
    return error_named(status);
}

tutti_status tutti_store_wait(tutti_store *store, const char *const *keys, size_t count,
                              int64_t timeout_ms)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_keys(keys, count);
    return status || !count ? error_named(status) : store->ops->wait(store, keys, count, &time);
}

static tutti_status get_one_by_one(tutti_store *store, const char *const *keys, size_t count,
                                   const struct store_time *time, tutti_store_value *ret_values)
{
    tutti_status status = store->ops->wait(store, keys, count, time);

    for (size_t i = 0; i < count && !status; i++) {
        status = store->ops->get(store, keys[i], time, &ret_values[i]);
        if (status) {
            while (i > 0)
                tutti_store_value_free(&ret_values[--i]);
            break;
        }
    }
    return status;
}

tutti_status store_multi_get(tutti_store *store, const char *const *keys, size_t count,
                             const struct store_time *time, tutti_store_value *ret_values)
{
    return store->ops->multi_get ? store->ops->multi_get(store, keys, count, time, ret_values)
                                 : get_one_by_one(store, keys, count, time, ret_values);
}

tutti_status tutti_store_multi_get(tutti_store *store, const char *const *keys, size_t count,
                                   int64_t timeout_ms, tutti_store_value *ret_values)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_keys(keys, count);
    if (status || !count)
        return error_named(status);
    status = check_result(ret_values);
    return status ? error_named(status) : store_multi_get(store, keys, count, &time, ret_values);
}

tutti_status tutti_store_append(tutti_store *store, const char *key, const void *data, size_t size,
                                int64_t timeout_ms)
{
    struct store_time time;
    tutti_status status = enter_to_write(store, key, data, size, timeout_ms, &time);

    return status ? error_named(status)
                  : store->ops->append(store, key, (struct store_slice){data, size}, &time);
}

tutti_status tutti_store_delete(tutti_store *store, const char *key, int64_t timeout_ms,
                                int32_t *ret_existed)
{
    struct store_time time;
    bool existed;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_key(key);
    if (!status)
        status = store->ops->remove(store, key, &time, &existed);
    if (!status && ret_existed)
        *ret_existed = existed;
    return error_named(status);
}

tutti_status tutti_store_num_keys(tutti_store *store, int64_t timeout_ms, int64_t *ret_count)
{
    struct store_time time;
    tutti_status status = enter(store, timeout_ms, &time);

    if (!status)
        status = check_result(ret_count);
    return status ? error_named(status) : store->ops->num_keys(store, &time, ret_count);
}
