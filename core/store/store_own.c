/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of the caller's own, by a table of functions that never wait for a key.
 *
 * Waiting is done here: a key that is not there is looked for again after a pause that grows, and between
 * two looks others may call. One call at a time reaches the table, so it needs no lock of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "store/store.h"

enum { FIRST_PAUSE_MS = 1, LAST_PAUSE_MS = 50 };

struct own_store {
    tutti_store base;
    struct store_turn turn;
    tutti_store_ops table;
    void *self;
};

static struct own_store *self(tutti_store *store)
{
    return (struct own_store *)store;
}

/* What is left for the table's function, which takes 0 for no time. */
static int64_t left_ms(const struct store_time *time)
{
    const int64_t left = (time->deadline_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left > 0 ? left : 0;
}

/* Before a function of the table. */
static tutti_status begin(struct own_store *own, const struct store_time *time,
                          uint64_t *ret_number)
{
    *ret_number = error_number();
    return store_turn_take(&own->turn, time);
}

/* A function of the table has failed; if it called others of tutti that did, the last one's message
 * says why. */
static tutti_status failed(tutti_status status, const char *what, const char *key, uint64_t number)
{
    const bool known = status == TUTTI_ERR_TIMEOUT || status == TUTTI_ERR_NO_MEMORY;
    const bool told = error_since(number);

    return error_set(known ? status : TUTTI_ERR_STORE,
                     "the program's own store: %s of the key \"%.*s\" returned %s%s%s", what,
                     TEXT_CUT(key, 100), tutti_status_name(status), told ? ": " : "",
                     told ? error_message() : "");
}

/* NOT_READY without words: the key is not there. */
static tutti_status get_now(struct own_store *own, const char *key, const struct store_time *time,
                            tutti_store_value *ret_value)
{
    uint64_t number;
    tutti_store_value value = {0};
    tutti_status status = begin(own, time, &number);

    if (status)
        return status;
    status = own->table.get(own->self, key, left_ms(time), &value);
    store_turn_give(&own->turn);
    if (status == TUTTI_ERR_NOT_READY)
        return status;
    if (!status && value.size > TUTTI_STORE_MAX_VALUE) {
        status = error_set(TUTTI_ERR_STORE,
                           "the program's own store: a value of %zu bytes, at most %u are allowed",
                           value.size, TUTTI_STORE_MAX_VALUE);
        tutti_store_value_free(&value);
        return status;
    }
    if (!status && !value.data) /* nothing was set: an empty value */
        return store_value_allocate(0, ret_value);
    if (status)
        return failed(status, "get", key, number);
    *ret_value = value;
    return TUTTI_OK;
}

static tutti_status check_one(struct own_store *own, const char *key, const struct store_time *time,
                              bool *ret_present)
{
    tutti_store_value value = {0};
    tutti_status status = get_now(own, key, time, &value);

    tutti_store_value_free(&value);
    if (status && status != TUTTI_ERR_NOT_READY)
        return status;
    *ret_present = !status;
    return TUTTI_OK;
}

static tutti_status own_check(tutti_store *store, const char *const *keys, size_t count,
                              const struct store_time *time, bool *ret_present)
{
    struct own_store *own = self(store);
    uint64_t number;
    int32_t present = 1;

    if (!own->table.check) {
        bool there = true;
        tutti_status status = TUTTI_OK;

        for (size_t i = 0; i < count && there && !status; i++)
            status = check_one(own, keys[i], time, &there);
        if (!status)
            *ret_present = there;
        return status;
    }
    tutti_status status = begin(own, time, &number);
    if (status)
        return status;
    status = own->table.check(own->self, keys, count, left_ms(time), &present);
    store_turn_give(&own->turn);
    if (status)
        return failed(status, "check", keys[0], number);
    *ret_present = present;
    return TUTTI_OK;
}

static void pause_before_look(int *pause_ms, const struct store_time *time)
{
    const int64_t left = left_ms(time);
    const int64_t ms = left < *pause_ms ? left : *pause_ms;
    const struct timespec pause = {.tv_nsec = (ms > 0 ? ms : 1) * CLOCK_NS_PER_MS};

    nanosleep(&pause, NULL);
    *pause_ms = *pause_ms * 2 < LAST_PAUSE_MS ? *pause_ms * 2 : LAST_PAUSE_MS;
}

static tutti_status not_there(const char *const *keys, size_t count, const struct store_time *time)
{
    char names[STORE_NAMES_ROOM];

    return error_set(TUTTI_ERR_TIMEOUT, "waited %" PRId64 " ms for %s in the program's own store",
                     time->ms, store_name_keys(names, keys, count));
}

static tutti_status own_wait(tutti_store *store, const char *const *keys, size_t count,
                             const struct store_time *time)
{
    int pause_ms = FIRST_PAUSE_MS;

    for (;;) {
        bool present = true;
        tutti_status status = own_check(store, keys, count, time, &present);

        if (status || present)
            return status;
        if (clock_now_ns() >= time->deadline_ns)
            return not_there(keys, count, time);
        pause_before_look(&pause_ms, time);
    }
}

static tutti_status own_get(tutti_store *store, const char *key, const struct store_time *time,
                            tutti_store_value *ret_value)
{
    int pause_ms = FIRST_PAUSE_MS;

    for (;;) {
        tutti_status status = get_now(self(store), key, time, ret_value);

        if (status != TUTTI_ERR_NOT_READY)
            return status;
        if (clock_now_ns() >= time->deadline_ns)
            return not_there(&key, 1, time);
        pause_before_look(&pause_ms, time);
    }
}

/* By the table's set or append; `what` it is. */
static tutti_status own_write(struct own_store *own,
                              tutti_status (*write)(void *self, const char *key, const void *data,
                                                    size_t size, int64_t timeout_ms),
                              const char *what, const char *key, struct store_slice value,
                              const struct store_time *time)
{
    uint64_t number;
    tutti_status status = begin(own, time, &number);

    if (status)
        return status;
    status = write(own->self, key, value.data, value.size, left_ms(time));
    store_turn_give(&own->turn);
    return status ? failed(status, what, key, number) : TUTTI_OK;
}

static tutti_status own_set(tutti_store *store, const char *key, struct store_slice value,
                            const struct store_time *time)
{
    struct own_store *own = self(store);

    return own_write(own, own->table.set, "set", key, value, time);
}

static tutti_status own_compare_set(tutti_store *store, const char *key,
                                    struct store_slice expected, struct store_slice desired,
                                    const struct store_time *time, tutti_store_value *ret_value)
{
    struct own_store *own = self(store);
    uint64_t number;
    tutti_store_value value = {0};
    tutti_status status = begin(own, time, &number);

    if (status)
        return status;
    status = own->table.compare_set(own->self, key, expected.data, expected.size, desired.data,
                                    desired.size, left_ms(time), &value);
    store_turn_give(&own->turn);
    if (status)
        return failed(status, "compare_set", key, number);
    if (!value.data)
        return store_value_allocate(0, ret_value);
    *ret_value = value;
    return TUTTI_OK;
}

/* What the table lacks and nothing can be made of: two that add the same could not tell whose sum it is. */
static tutti_status lacks(const char *what)
{
    return error_set(TUTTI_ERR_UNSUPPORTED, "the program's own store has no function \"%s\"", what);
}

static tutti_status own_add(tutti_store *store, const char *key, int64_t delta,
                            const struct store_time *time, int64_t *ret_value)
{
    struct own_store *own = self(store);
    uint64_t number;

    if (!own->table.add)
        return lacks("add");
    tutti_status status = begin(own, time, &number);
    if (status)
        return status;
    status = own->table.add(own->self, key, delta, left_ms(time), ret_value);
    store_turn_give(&own->turn);
    return status ? failed(status, "add", key, number) : TUTTI_OK;
}

static tutti_status own_append(tutti_store *store, const char *key, struct store_slice value,
                               const struct store_time *time)
{
    struct own_store *own = self(store);

    return own->table.append ? own_write(own, own->table.append, "append", key, value, time)
                             : lacks("append");
}

static tutti_status own_remove(tutti_store *store, const char *key, const struct store_time *time,
                               bool *ret_existed)
{
    struct own_store *own = self(store);
    uint64_t number;
    int32_t existed = 0;

    if (!own->table.remove)
        return lacks("remove");
    tutti_status status = begin(own, time, &number);
    if (status)
        return status;
    status = own->table.remove(own->self, key, left_ms(time), &existed);
    store_turn_give(&own->turn);
    if (status)
        return failed(status, "remove", key, number);
    *ret_existed = existed;
    return TUTTI_OK;
}

static tutti_status own_num_keys(tutti_store *store, const struct store_time *time,
                                 int64_t *ret_count)
{
    struct own_store *own = self(store);
    uint64_t number;

    if (!own->table.num_keys)
        return lacks("num_keys");
    tutti_status status = begin(own, time, &number);
    if (status)
        return status;
    status = own->table.num_keys(own->self, left_ms(time), ret_count);
    store_turn_give(&own->turn);
    return status ? failed(status, "num_keys", "*", number) : TUTTI_OK;
}

static void own_close(tutti_store *store)
{
    struct own_store *own = self(store);

    if (own->table.close)
        own->table.close(own->self);
    store_turn_destroy(&own->turn);
    free(own);
}

static const struct store_ops own_ops = {
    .close = own_close,
    .set = own_set,
    .get = own_get,
    .add = own_add,
    .compare_set = own_compare_set,
    .check = own_check,
    .wait = own_wait,
    .append = own_append,
    .remove = own_remove,
    .num_keys = own_num_keys,
};

tutti_status tutti_store_create(const tutti_store_ops *ops, void *user, tutti_store **ret_store)
{
    tutti_store_ops table;

    if (!ops || !ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ops and ret_store must not be NULL");
    tutti_status status = error_named(options_copy(&table, sizeof table, ops, "tutti_store_ops"));
    if (status)
        return status;
    if (table.reserved || !table.set || !table.get || !table.compare_set)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "tutti_store_ops: reserved must be 0; set, get and compare_set must be there");
    struct own_store *own = calloc(1, sizeof *own);
    if (!own)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");
    status = store_turn_init(&own->turn);
    if (status) {
        free(own);
        return status;
    }
    store_init(&own->base, &own_ops);
    own->table = table;
    own->self = user;
    *ret_store = &own->base;
    return TUTTI_OK;
}

tutti_status tutti_store_value_set(tutti_store_value *value, const void *data, size_t size)
{
    if (!value || (!data && size))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the value, and its bytes if there are any, must not be NULL");
    return store_value_copy((struct store_slice){data, size}, value);
}
