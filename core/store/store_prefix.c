/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view of another store: every key gets `prefix/` in front and the call goes on, deadline and
 * all. A prefix store over a prefix store therefore shows the inner prefix first, as torch's does.
 */
#include <stdlib.h>
#include <string.h>

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

/* The keys with the prefix; the list and what it points to are one allocation. */
static tutti_status full_keys(const struct prefix_store *prefix, const char *const *keys,
                              size_t count, const char ***ret_keys)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t size = prefix->prefix_size + strlen(keys[i]) + 1;

        if (size > TUTTI_STORE_MAX_KEY)
            return error_set(
                TUTTI_ERR_INVALID_ARGUMENT,
                "the key \"/%.*s%.*s…\" has %zu bytes, prefixes included; at most %u are allowed",
                TEXT_CUT(prefix->prefix, 64), TEXT_CUT(keys[i], 64), size, TUTTI_STORE_MAX_KEY);
        bytes += size;
    }

    const char **list = malloc(count * sizeof(const char *) + bytes + 1); /* not 0 bytes */

    if (!list)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu keys", count);

    char *at = (char *)(list + count);

    for (size_t i = 0; i < count; i++) {
        list[i] = at;
        at = stpcpy(stpcpy(at, prefix->prefix), keys[i]) + 1;
    }
    *ret_keys = list;
    return TUTTI_OK;
}

static void prefix_close(tutti_store *store)
{
    tutti_store_unref(self(store)->inner);
    free(store);
}

static tutti_status prefix_call(tutti_store *store, struct store_call *call)
{
    struct store_call inner = *call;
    const char **full = NULL;
    tutti_status status = full_keys(self(store), call->keys, call->count, &full);

    if (status)
        return status;
    inner.keys = full;
    status = store_call(self(store)->inner, &inner);
    call->number = inner.number;
    free(full);
    return status;
}

static void prefix_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    store_local_address(self(store)->inner, ret_address);
}

static tutti_status make_view(tutti_store *inner, const char *prefix, size_t size,
                              const struct store_ops *ops, tutti_store **ret_store)
{
    struct prefix_store *made = store_new(sizeof *made + size + 2, ops);

    if (!made)
        return TUTTI_ERR_NO_MEMORY;
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
    .call = prefix_call,
    .has_multi_get = true,
    .clone = prefix_clone,
    .local_address = prefix_local_address,
};

tutti_status tutti_store_open_prefix(tutti_store *store, const char *prefix,
                                     tutti_store **ret_store)
{
    if (!store || !prefix || !ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "store, prefix and ret_store must not be NULL");

    tutti_status status = store_check_process(store);

    if (status)
        return status;

    const size_t size = strnlen(prefix, TUTTI_STORE_MAX_KEY);

    if (size >= TUTTI_STORE_MAX_KEY - 1)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the prefix leaves no room for a key: keys have at most "
                         "%u bytes",
                         TUTTI_STORE_MAX_KEY);

    return make_view(store, prefix, size, &prefix_ops, ret_store);
}
