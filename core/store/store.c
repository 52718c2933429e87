/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { DEFAULT_TIMEOUT_MS = 300 * 1000, NAMES_SHOWN = 4 };

void *store_new(size_t size, const struct store_ops *ops)
{
    tutti_store *store = calloc(1, size);

    if (!store) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");
        return NULL;
    }
    store->ops = ops;
    store->pid = getpid();
    atomic_init(&store->references, 1);
    return store;
}

tutti_status store_time_start(int64_t timeout_ms, struct store_time *ret_time)
{
    if (timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "timeout_ms is %" PRId64 "; it must not be negative (0: the default)",
                         timeout_ms);
    if (!timeout_ms)
        timeout_ms = DEFAULT_TIMEOUT_MS;
    *ret_time = (struct store_time){timeout_ms, clock_deadline_ms(timeout_ms)};
    return TUTTI_OK;
}

bool store_pause(int *pause_us, int last_us, const struct store_time *time)
{
    const int64_t left_ns = time->deadline_ns - clock_now_ns();
    int64_t pause_ns = (int64_t)*pause_us * 1000;

    if (left_ns <= 0)
        return false;
    if (pause_ns > left_ns)
        pause_ns = left_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
    *pause_us = *pause_us * 2 < last_us ? *pause_us * 2 : last_us;
    return true;
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

tutti_status store_value_copy(struct slice bytes, tutti_store_value *ret_value)
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

tutti_status store_keys_missing(const struct store_call *call, const char *format, ...)
{
    const size_t shown = call->count < NAMES_SHOWN ? call->count : NAMES_SHOWN;
    char names[512], where[ERROR_MESSAGE_MAX];
    struct text text = text_in(names, sizeof names);
    va_list args;

    for (size_t i = 0; i < shown; i++)
        text_add(&text, "%s\"/%.*s\"", i ? ", " : "", TEXT_CUT(call->keys[i], 100));
    if (call->count > shown)
        text_add(&text, " and %zu more", call->count - shown);
    va_start(args, format);
    (void)vsnprintf(where, sizeof where, format, args);
    va_end(args);
    return error_set(TUTTI_ERR_TIMEOUT, "timed out after %" PRId64 " ms waiting for %s in %s",
                     call->time.ms, names, where);
}

void store_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    *ret_address = 0;
    if (store->ops->local_address)
        store->ops->local_address(store, ret_address);
}

tutti_status store_check_process(const tutti_store *store)
{
    if (store->pid == getpid())
        return TUTTI_OK;
    return error_set(TUTTI_ERR_FORKED,
                     "this store was opened by process %d, before the fork; a child opens its own",
                     (int)store->pid);
}

/* The begin of every call. */
static tutti_status enter(const tutti_store *store, int64_t timeout_ms, struct store_time *ret_time)
{
    tutti_status status = store ? store_check_process(store)
                                : error_set(TUTTI_ERR_INVALID_ARGUMENT, "the store is NULL");

    return status ? status : store_time_start(timeout_ms, ret_time);
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

static tutti_status check_value(struct slice value)
{
    if (!value.data && value.size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the value is NULL, but its size is %zu bytes",
                         value.size);
    if (value.size > TUTTI_STORE_MAX_VALUE)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the value has %zu bytes; at most %u are allowed", value.size,
                         TUTTI_STORE_MAX_VALUE);
    return TUTTI_OK;
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

tutti_status store_call(tutti_store *store, struct store_call *call)
{
    if (call->opcode != STORE_MULTI_GET || store->ops->has_multi_get)
        return store->ops->call(store, call);

    struct store_call one = *call;
    size_t received = 0;

    one.opcode = STORE_WAIT;
    tutti_status status = store->ops->call(store, &one);
    one.opcode = STORE_GET;
    one.count = 1;
    while (!status && received < call->count) {
        one.keys = &call->keys[received];
        one.ret_values = &call->ret_values[received];
        status = store->ops->call(store, &one);
        received += !status;
    }
    while (status && received > 0)
        tutti_store_value_free(&call->ret_values[--received]);
    return status;
}

/* Checks a call of the public `function`, starts its clock and makes it. `ret`: NULL where it lacks a place for
 * its result. */
static tutti_status run(const char *function, tutti_store *store, struct store_call *call,
                        int64_t timeout_ms, const void *ret)
{
    const bool is_of_keys = call->opcode != STORE_GETNUMKEYS;
    tutti_status status = enter(store, timeout_ms, &call->time);

    if (!status && is_of_keys)
        status = check_keys(call->keys, call->count);
    if (!status)
        status = check_value(call->expected);
    if (!status)
        status = check_value(call->value);
    if (!status && !ret)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "the pointer for the result is NULL");
    if (status || (is_of_keys && !call->count))
        return error_of(function, status);
    return store_call(store, call);
}

tutti_status tutti_store_set(tutti_store *store, const char *key, const void *data, size_t size,
                             int64_t timeout_ms)
{
    struct store_call call = {.opcode = STORE_SET, .keys = &key, .count = 1, .value = {data, size}};

    return run(__func__, store, &call, timeout_ms, &call);
}

tutti_status tutti_store_get(tutti_store *store, const char *key, int64_t timeout_ms,
                             tutti_store_value *ret_value)
{
    struct store_call call = {
        .opcode = STORE_GET, .keys = &key, .count = 1, .ret_values = ret_value};

    return run(__func__, store, &call, timeout_ms, ret_value);
}

tutti_status tutti_store_add(tutti_store *store, const char *key, int64_t delta, int64_t timeout_ms,
                             int64_t *ret_value)
{
    struct store_call call = {.opcode = STORE_ADD, .keys = &key, .count = 1, .delta = delta};
    tutti_status status = run(__func__, store, &call, timeout_ms, &call);

    if (!status && ret_value)
        *ret_value = call.number;
    return error_named(status);
}

tutti_status tutti_store_compare_set(tutti_store *store, const char *key, const void *expected,
                                     size_t expected_size, const void *desired, size_t desired_size,
                                     int64_t timeout_ms, tutti_store_value *ret_value)
{
    struct store_call call = {.opcode = STORE_COMPARE_SET,
                              .keys = &key,
                              .count = 1,
                              .expected = {expected, expected_size},
                              .value = {desired, desired_size},
                              .ret_values = ret_value};

    return run(__func__, store, &call, timeout_ms, ret_value);
}

tutti_status tutti_store_check(tutti_store *store, const char *const *keys, size_t count,
                               int64_t timeout_ms, int32_t *ret_present)
{
    struct store_call call = {.opcode = STORE_CHECK, .keys = keys, .count = count, .number = true};
    tutti_status status = run(__func__, store, &call, timeout_ms, ret_present);

    if (!status)
        *ret_present = (int32_t)call.number;
    return error_named(status);
}

tutti_status tutti_store_wait(tutti_store *store, const char *const *keys, size_t count,
                              int64_t timeout_ms)
{
    struct store_call call = {.opcode = STORE_WAIT, .keys = keys, .count = count};

    return run(__func__, store, &call, timeout_ms, &call);
}

tutti_status tutti_store_multi_get(tutti_store *store, const char *const *keys, size_t count,
                                   int64_t timeout_ms, tutti_store_value *ret_values)
{
    struct store_call call = {
        .opcode = STORE_MULTI_GET, .keys = keys, .count = count, .ret_values = ret_values};

    return run(__func__, store, &call, timeout_ms, count ? (const void *)ret_values : &call);
}

tutti_status tutti_store_append(tutti_store *store, const char *key, const void *data, size_t size,
                                int64_t timeout_ms)
{
    struct store_call call = {
        .opcode = STORE_APPEND, .keys = &key, .count = 1, .value = {data, size}};

    return run(__func__, store, &call, timeout_ms, &call);
}

tutti_status tutti_store_delete(tutti_store *store, const char *key, int64_t timeout_ms,
                                int32_t *ret_existed)
{
    struct store_call call = {.opcode = STORE_DELETE_KEY, .keys = &key, .count = 1};
    tutti_status status = run(__func__, store, &call, timeout_ms, &call);

    if (!status && ret_existed)
        *ret_existed = (int32_t)call.number;
    return error_named(status);
}

tutti_status tutti_store_num_keys(tutti_store *store, int64_t timeout_ms, int64_t *ret_count)
{
    struct store_call call = {.opcode = STORE_GETNUMKEYS};
    tutti_status status = run(__func__, store, &call, timeout_ms, ret_count);

    if (!status)
        *ret_count = call.number;
    return status;
}
