/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a file that all members see: the operations, over the log of store_file_log.c. Every
 * write is decided under the exclusive lock, from contents that are up to date. A process that
 * waits for a key polls. A file that a process has closed already belongs to an earlier job and is
 * refused.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store.h"
#include "store/store_file_log.h"

enum {
    CLOSE_MS = 5 * 1000, /* to say goodbye; nothing depends on it but the file's removal */
    NUMBER_ROOM = 24,
    KEY_ROOM = TUTTI_STORE_MAX_KEY + 1 /* with the NUL; the leading '/' counts as key */
};

struct file_store {
    tutti_store base;
    struct store_turn turn;
    struct store_file_log log;
    int32_t world_size;
    char path[];
};

/* Takes the turn and the lock, and reads. What it returns OK for ends with leave(). */
static tutti_status enter(struct file_store *file, int operation, const struct store_time *time)
{
    tutti_status status = store_turn_take(&file->turn, time);

    if (status)
        return error_prefix("store file %s", file->path);
    status = store_file_log_enter(&file->log, operation, time);
    if (status)
        store_turn_give(&file->turn);
    return status;
}

static tutti_status leave(struct file_store *file, tutti_status status)
{
    store_file_log_leave(&file->log);
    store_turn_give(&file->turn);
    return status;
}

static const struct slice nothing = {"", 0};

/* Adds a record, whose value is `value` and `more`; `mark` is "-" where it deletes the key. */
static void put_record(struct buffer *records, const char *mark, struct slice key,
                       struct slice value, struct slice more)
{
    buffer_put_uint(records, (uint32_t)(strlen(mark) + key.size), 4);
    buffer_put(records, mark, strlen(mark));
    buffer_put(records, key.data, key.size);
    buffer_put_uint(records, (uint32_t)(value.size + more.size), 4);
    buffer_put(records, value.data, value.size);
    buffer_put(records, more.data, more.size);
}

static void put_number(struct buffer *records, struct slice key, int64_t number)
{
    char text[NUMBER_ROOM];
    const int size = snprintf(text, sizeof text, "%" PRId64, number);

    put_record(records, "", key, (struct slice){text, (size_t)size}, nothing);
}

/* The name of a key in the file. */
static struct slice name(const char *key, char room[KEY_ROOM])
{
    const size_t size = strlen(key);

    room[0] = '/';
    memcpy(room + 1, key, size); /* NOLINT: a slice, not a string */
    return (struct slice){room, size + 1};
}

/* A number among the contents; a missing one is 0. */
static tutti_status read_number(const struct file_store *file, struct slice key,
                                int64_t *ret_number)
{
    struct slice text;

    *ret_number = 0;
    if (store_map_get(file->log.map, key, &text) && !store_parse_number(text, ret_number))
        return error_set(TUTTI_ERR_STORE,
                         "the value of \"%.*s\" in the store file %s is not a decimal number, so "
                         "tutti cannot add to it",
                         (int)(key.size < 100 ? key.size : 100), (const char *)key.data,
                         file->path);
    return TUTTI_OK;
}

static bool all_present(const struct file_store *file, const struct store_call *call)
{
    size_t count = call->count;
    char room[KEY_ROOM];

    while (count && store_map_present(file->log.map, name(call->keys[count - 1], room)))
        count--;
    return count == 0;
}

/* Enters with a shared lock once every key is there. */
static tutti_status enter_when_present(struct file_store *file, const struct store_call *call)
{
    int pause_us = STORE_FILE_FIRST_PAUSE_US;

    for (;;) {
        tutti_status status = enter(file, LOCK_SH, &call->time);

        if (status || all_present(file, call))
            return status;
        leave(file, TUTTI_OK);
        if (!store_pause(&pause_us, STORE_FILE_LAST_PAUSE_US, &call->time))
            return store_keys_missing(call, "the store file %s", file->path);
    }
}

/* Under the lock that the call needs, with contents that are up to date. */
static tutti_status call_locked(struct file_store *file, struct store_call *call)
{
    char room[KEY_ROOM];
    const struct slice key = name(call->count ? call->keys[0] : "", room);
    struct buffer records = {0};
    struct slice old = nothing;
    const bool exists = store_map_get(file->log.map, key, &old);
    tutti_status status;
    int64_t number;

    switch (call->opcode) {
    case STORE_SET:
        put_record(&records, "", key, call->value, nothing);
        break;
    case STORE_APPEND:
        if (call->value.size > TUTTI_STORE_MAX_VALUE - old.size)
            return error_set(TUTTI_ERR_STORE, "a value of %zu bytes is more than the limit of %u",
                             old.size + call->value.size, TUTTI_STORE_MAX_VALUE);
        put_record(&records, "", key, old, call->value);
        break;
    case STORE_ADD:
        status = read_number(file, key, &number);
        if (status)
            return status;
        call->number = (int64_t)((uint64_t)number + (uint64_t)call->delta); /* wraps, as torch's */
        put_number(&records, key, call->number);
        break;
    case STORE_COMPARE_SET:
        if (!slice_equal(old, call->expected))
            return store_value_copy(exists ? old : call->expected, call->ret_values);
        put_record(&records, "", key, call->value, nothing);
        status = store_file_log_append(&file->log, &records);
        return status ? status : store_value_copy(call->value, call->ret_values);
    case STORE_DELETE_KEY:
        call->number = exists;
        put_record(&records, "-", key, nothing, nothing);
        break;
    case STORE_CHECK:
        call->number = all_present(file, call);
        return TUTTI_OK;
    case STORE_GET:
        return exists ? store_value_copy(old, call->ret_values) : TUTTI_OK;
    case STORE_GETNUMKEYS: /* with the two counters, as torch's */
        call->number = (int64_t)store_map_count(file->log.map);
        return TUTTI_OK;
    default: /* STORE_WAIT */
        return TUTTI_OK;
    }
    return store_file_log_append(&file->log, &records);
}

static tutti_status file_call(tutti_store *store, struct store_call *call)
{
    struct file_store *file = (struct file_store *)store;
    const bool waits = call->opcode == STORE_GET || call->opcode == STORE_WAIT;
    tutti_status status =
        waits ? enter_when_present(file, call)
              : enter(file, store_call_writes(call) ? LOCK_EX : LOCK_SH, &call->time);

    return status ? status : leave(file, call_locked(file, call));
}

/* Counts this member in, unless somebody has left already: then the file is an earlier job's. */
static tutti_status count_in(struct file_store *file, const struct store_time *time)
{
    struct buffer records = {0};
    int64_t left, members = 0;
    tutti_status status = enter(file, LOCK_EX, time);

    if (status)
        return status;
    status = read_number(file, slice_of("cleanup/"), &left);
    if (!status && left > 0)
        status = error_set(
            TUTTI_ERR_STALE,
            "the store file %s was left by an earlier job (%" PRId64
            " of its members have closed it): remove it, or give each run a path of its own",
            file->path, left);
    if (!status)
        status = read_number(file, slice_of("refcount/"), &members);
    if (!status) {
        put_number(&records, slice_of("refcount/"), members + 1);
        status = store_file_log_append(&file->log, &records);
    }
    return leave(file, status);
}

/* Counts this member out; the last one of the world removes the file. */
static void count_out(struct file_store *file)
{
    struct buffer records = {0};
    const struct store_time time = {CLOSE_MS, clock_deadline_ms(CLOSE_MS)};
    int64_t left, members;

    if (enter(file, LOCK_EX, &time))
        return;
    if (!read_number(file, slice_of("cleanup/"), &left) &&
        !read_number(file, slice_of("refcount/"), &members)) {
        put_number(&records, slice_of("cleanup/"), ++left);
        put_number(&records, slice_of("refcount/"), --members);
        if (!store_file_log_append(&file->log, &records) && file->world_size > 0 && members == 0 &&
            left >= file->world_size)
            (void)unlink(file->path);
    }
    (void)leave(file, TUTTI_OK);
}

static void file_free(struct file_store *file)
{
    store_map_free(file->log.map);
    store_turn_destroy(&file->turn);
    free(file);
}

static void file_close(tutti_store *store)
{
    count_out((struct file_store *)store);
    file_free((struct file_store *)store);
}

static const struct store_ops file_ops = {
    .close = file_close,
    .call = file_call,
};

tutti_status tutti_store_open_file(const char *path, int32_t world_size, int64_t timeout_ms,
                                   tutti_store **ret_store)
{
    struct store_time time;
    tutti_status status = error_named(store_time_start(timeout_ms, &time));

    if (status)
        return status;
    if (!path || !*path || !ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "path and ret_store must not be NULL, nor path empty");

    struct file_store *file = store_new(sizeof *file + strlen(path) + 1, &file_ops);

    if (!file)
        return TUTTI_ERR_NO_MEMORY;
    memcpy(file->path, path, strlen(path) + 1);
    file->log.path = file->path;
    file->world_size = world_size;
    store_turn_init(&file->turn);
    status = store_map_new(STORE_MAP_MAX_BYTES, &file->log.map);
    if (!status)
        status = count_in(file, &time);
    if (status) {
        file_free(file);
        return status;
    }
    *ret_store = &file->base;
    return TUTTI_OK;
}
