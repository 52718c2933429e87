/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view of another store: every key gets `prefix/` in front and the call goes on, deadline and
 * all. A prefix store over a prefix store therefore shows the inner prefix first, as torch's does.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "store/store.h"

struct prefix_store {
    tutti_store base;
    tutti_store *inner;
    size_t prefix_size; /* with the '/' */
    char prefix[];
};

static struct prefix_store *self(tutti_store *store)
{
    return (struct prefix_store *)store;
}

static tutti_status full_size(const struct prefix_store *prefix, const char *key, size_t *ret_size)
{
    *ret_size = prefix->prefix_size + strlen(key);
    if (*ret_size >= TUTTI_STORE_MAX_KEY)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "the key \"/%.*s%.*s…\" has %zu bytes, prefixes included; at most %u are allowed",
            TEXT_CUT(prefix->prefix, 64), TEXT_CUT(key, 64), *ret_size + 1, TUTTI_STORE_MAX_KEY);
    return TUTTI_OK;
}

static void join(const struct prefix_store *prefix, const char *key, size_t size, char *ret_key)
{
    memcpy(ret_key, prefix->prefix, prefix->prefix_size);
    memcpy(ret_key + prefix->prefix_size, key, size - prefix->prefix_size + 1);
}

static tutti_status full_key(const struct prefix_store *prefix, const char *key,
                             char ret_key[STORE_KEY_ROOM])
{
    size_t size;
    tutti_status status = full_size(prefix, key, &size);

    if (!status)
        join(prefix, key, size, ret_key);
    return status;
}

/* The list and the keys behind it are one allocation. */
static tutti_status full_keys(const struct prefix_store *prefix, const char *const *keys,
                              size_t count, const char ***ret_keys)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        size_t size;
        tutti_status status = full_size(prefix, keys[i], &size);

        if (status)
            return status;
        bytes += size + 1;
    }

    const char **list = malloc(count * sizeof(const char *) + bytes);

    if (!list)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu keys", count);

    char *at = (char *)(list + count);

    for (size_t i = 0; i < count; i++) {
        size_t size = prefix->prefix_size + strlen(keys[i]);

        join(prefix, keys[i], size, at);
        list[i] = at;
        at += size + 1;
    }
    *ret_keys = list;
    return TUTTI_OK;
}

static void prefix_close(tutti_store *store)
{
    tutti_store_unref(self(store)->inner);
    free(store);
}

static tutti_status prefix_set(tutti_store *store, const char *key, struct store_slice value,
                               const struct store_time *time)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status : inner->ops->set(inner, full, value, time);
}

static tutti_status prefix_get(tutti_store *store, const char *key, const struct store_time *time,
                               tutti_store_value *ret_value)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status : inner->ops->get(inner, full, time, ret_value);
}

static tutti_status prefix_add(tutti_store *store, const char *key, int64_t delta,
                               const struct store_time *time, int64_t *ret_value)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status : inner->ops->add(inner, full, delta, time, ret_value);
}

static tutti_status prefix_compare_set(tutti_store *store, const char *key,
                                       struct store_slice expected, struct store_slice desired,
                                       const struct store_time *time, tutti_store_value *ret_value)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status
                  : inner->ops->compare_set(inner, full, expected, desired, time, ret_value);
}

static tutti_status prefix_check(tutti_store *store, const char *const *keys, size_t count,
                                 const struct store_time *time, bool *ret_present)
{
    tutti_store *inner = self(store)->inner;
    const char **full;
    tutti_status status = full_keys(self(store), keys, count, &full);

    if (status)
        return status;
    status = inner->ops->check(inner, full, count, time, ret_present);
    free(full);
    return status;
}

static tutti_status prefix_wait(tutti_store *store, const char *const *keys, size_t count,
                                const struct store_time *time)
{
    tutti_store *inner = self(store)->inner;
    const char **full;
    tutti_status status = full_keys(self(store), keys, count, &full);

    if (status)
        return status;
    status = inner->ops->wait(inner, full, count, time);
    free(full);
    return status;
}

static tutti_status prefix_multi_get(tutti_store *store, const char *const *keys, size_t count,
                                     const struct store_time *time, tutti_store_value *ret_values)
{
    const char **full;
    tutti_status status = full_keys(self(store), keys, count, &full);

    if (status)
        return status;
    status = store_multi_get(self(store)->inner, full, count, time, ret_values);
    free(full);
    return status;
}

static tutti_status prefix_append(tutti_store *store, const char *key, struct store_slice value,
                                  const struct store_time *time)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status : inner->ops->append(inner, full, value, time);
}

static tutti_status prefix_remove(tutti_store *store, const char *key,
                                  const struct store_time *time, bool *ret_existed)
{
    tutti_store *inner = self(store)->inner;
    char full[STORE_KEY_ROOM];
    tutti_status status = full_key(self(store), key, full);

    return status ? status : inner->ops->remove(inner, full, time, ret_existed);
}

static tutti_status prefix_num_keys(tutti_store *store, const struct store_time *time,
                                    int64_t *ret_count)
{
    tutti_store *inner = self(store)->inner;

    return inner->ops->num_keys(inner, time, ret_count);
}

static void prefix_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    store_local_address(self(store)->inner, ret_address);
}

static tutti_status make_view(tutti_store *inner, const char *prefix, size_t size,
                              const struct store_ops *ops, tutti_store **ret_store)
{
    struct prefix_store *made = malloc(sizeof *made + size + 2);

    if (!made)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");
    store_init(&made->base, ops);
    made->inner = tutti_store_ref(inner);
    made->prefix_size = size + 1;
    memcpy(made->prefix, prefix, size);
    memcpy(made->prefix + size, "/", 2);
    *ret_store = &made->base;
    return TUTTI_OK;
}

static tutti_status prefix_clone(tutti_store *store, const struct store_time *time,
                                 tutti_store **ret_store)
{
    const struct prefix_store *prefix = self(store);
    tutti_store *inner;
    tutti_status status = store_clone(prefix->inner, time->ms, &inner);

    if (status)
        return status;
    status = make_view(inner, prefix->prefix, prefix->prefix_size - 1, store->ops, ret_store);
    tutti_store_unref(inner);
    return status;
}

static const struct store_ops prefix_ops = {
    .close = prefix_close,
    .set = prefix_set,
    .get = prefix_get,
    .add = prefix_add,
    .compare_set = prefix_compare_set,
    .check = prefix_check,
    .wait = prefix_wait,
    .multi_get = prefix_multi_get,
    .append = prefix_append,
    .remove = prefix_remove,
    .num_keys = prefix_num_keys,
    .clone = prefix_clone,
    .local_address = prefix_local_address,
};

tutti_status tutti_store_open_prefix(tutti_store *store, const char *prefix,
                                     tutti_store **ret_store)
{
    if (!store || !prefix || !ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "a prefix store wants a store, a prefix and a place "
                         "for the result; one of them is NULL");

    if (store->pid != getpid())
        return error_set(
            TUTTI_ERR_FORKED,
            "this store was opened by process %d, before the fork; a child opens its own",
            (int)store->pid);

    const size_t size = strnlen(prefix, TUTTI_STORE_MAX_KEY);

    if (size >= TUTTI_STORE_MAX_KEY - 1)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the prefix leaves no room for a key: keys have at most "
                         "%u bytes",
                         TUTTI_STORE_MAX_KEY);

    return make_view(store, prefix, size, &prefix_ops, ret_store);
}
