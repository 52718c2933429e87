/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a file that all members see: the operations, over the log of store_file_log.c. Every
 * write is decided under the exclusive lock, from contents that are up to date; who waits for a key
 * polls. A file that somebody has closed already belongs to an earlier job and is refused.
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
    NUMBER_ROOM = 24
};

struct file_store {
    tutti_store base;
    struct store_turn turn;
    struct store_file_log log;
    int32_t world_size;
    char path[];
};

/* Takes the turn and the lock, and reads. What it returns OK for ends with leave(). */
static tutti_status enter(struct file_store *file, int operation, const struct store_time *time,
                          int *ret_fd)
{
    tutti_status status = store_turn_take(&file->turn, time);

    if (status)
        return error_prefix("store file %s", file->path);
    status = store_file_log_enter(&file->log, operation, time, ret_fd);
    if (status)
        store_turn_give(&file->turn);
    return status;
}

static tutti_status leave(struct file_store *file, int fd, tutti_status status)
{
    store_file_log_leave(fd);
    store_turn_give(&file->turn);
    return status;
}

static void put_record(struct store_buffer *records, const char *mark, const char *key,
                       struct store_slice value)
{
    store_buffer_put_u32(records, (uint32_t)(strlen(mark) + strlen(key)));
    store_buffer_put(records, mark, strlen(mark));
    store_buffer_put(records, key, strlen(key));
    store_buffer_put_u32(records, (uint32_t)value.size);
    store_buffer_put(records, value.data, value.size);
}

static void put_number(struct store_buffer *records, const char *mark, const char *key,
                       int64_t number)
{
    char text[NUMBER_ROOM];
    const int size = snprintf(text, sizeof text, "%" PRId64, number);

    put_record(records, mark, key, (struct store_slice){text, (size_t)size});
}

/* The name of a key in the file. */
static struct store_slice name(const char *key, char room[STORE_KEY_ROOM])
{
    const size_t size = strlen(key);

    room[0] = '/';
    memcpy(room + 1, key, size);
    return (struct store_slice){room, size + 1};
}

static bool lookup(const struct file_store *file, const char *key, struct store_slice *ret_value)
{
    char room[STORE_KEY_ROOM];

    return store_map_get(file->log.map, name(key, room), ret_value);
}

/* A number among the contents; a missing one is 0. */
static tutti_status read_number(const struct file_store *file, struct store_slice key,
                                int64_t *ret_number)
{
    struct store_slice text;

    *ret_number = 0;
    if (store_map_get(file->log.map, key, &text) && !store_parse_number(text, ret_number))
        return error_set(
            TUTTI_ERR_STORE,
            "the value of \"%.*s\" in the store file %s is no decimal number, so nothing can "
            "be added to it",
            (int)(key.size < 100 ? key.size : 100), (const char *)key.data, file->path);
    return TUTTI_OK;
}

static struct store_slice literal(const char *text)
{
    return (struct store_slice){text, strlen(text)};
}

static tutti_status file_set(tutti_store *store, const char *key, struct store_slice value,
                             const struct store_time *time)
{
    struct file_store *file = (struct file_store *)store;
    struct store_buffer records = {0};
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;
    put_record(&records, "/", key, value);
    return leave(file, fd, store_file_log_append(&file->log, fd, &records));
}

static bool all_present(const struct file_store *file, const char *const *keys, size_t count)
{
    struct store_slice value;

    while (count && lookup(file, keys[count - 1], &value))
        count--;
    return count == 0;
}

/* Enters with a shared lock once every key is there. */
static tutti_status enter_when_present(struct file_store *file, const char *const *keys,
                                       size_t count, const struct store_time *time, int *ret_fd)
{
    int pause_us = STORE_FILE_FIRST_PAUSE_US;
    char names[STORE_NAMES_ROOM];

    for (;;) {
        tutti_status status = enter(file, LOCK_SH, time, ret_fd);

        if (status || all_present(file, keys, count))
            return status;
        leave(file, *ret_fd, TUTTI_OK);
        if (!store_file_pause(&pause_us, time->deadline_ns))
            return error_set(TUTTI_ERR_TIMEOUT, "waited %" PRId64 " ms for %s in the store file %s",
                             time->ms, store_name_keys(names, keys, count), file->path);
    }
}

static tutti_status file_get(tutti_store *store, const char *key, const struct store_time *time,
                             tutti_store_value *ret_value)
{
    struct file_store *file = (struct file_store *)store;
    struct store_slice value;
    int fd;
    tutti_status status = enter_when_present(file, &key, 1, time, &fd);

    if (status)
        return status;
    if (lookup(file, key, &value))
        status = store_value_copy(value, ret_value);
    return leave(file, fd, status);
}

static tutti_status file_add(tutti_store *store, const char *key, int64_t delta,
                             const struct store_time *time, int64_t *ret_value)
{
    struct file_store *file = (struct file_store *)store;
    struct store_buffer records = {0};
    char room[STORE_KEY_ROOM];
    int64_t number;
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;
    status = read_number(file, name(key, room), &number);
    if (!status) {
        number = (int64_t)((uint64_t)number + (uint64_t)delta); /* wraps, as torch's */
        put_number(&records, "/", key, number);
        status = store_file_log_append(&file->log, fd, &records);
    }
    if (!status)
        *ret_value = number;
    return leave(file, fd, status);
}

static tutti_status file_compare_set(tutti_store *store, const char *key,
                                     struct store_slice expected, struct store_slice desired,
                                     const struct store_time *time, tutti_store_value *ret_value)
{
    struct file_store *file = (struct file_store *)store;
    struct store_buffer records = {0};
    struct store_slice old = {NULL, 0}, result = desired;
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;

    const bool exists = lookup(file, key, &old);

    if (old.size != expected.size || (old.size && memcmp(old.data, expected.data, old.size) != 0)) {
        result = exists ? old : expected;
    } else {
        put_record(&records, "/", key, desired);
        status = store_file_log_append(&file->log, fd, &records);
    }
    if (!status)
        status = store_value_copy(result, ret_value);
    return leave(file, fd, status);
}

static tutti_status file_check(tutti_store *store, const char *const *keys, size_t count,
                               const struct store_time *time, bool *ret_present)
{
    struct file_store *file = (struct file_store *)store;
    int fd;
    tutti_status status = enter(file, LOCK_SH, time, &fd);

    if (status)
        return status;
    *ret_present = all_present(file, keys, count);
    return leave(file, fd, TUTTI_OK);
}

static tutti_status file_wait(tutti_store *store, const char *const *keys, size_t count,
                              const struct store_time *time)
{
    struct file_store *file = (struct file_store *)store;
    int fd;
    tutti_status status = enter_when_present(file, keys, count, time, &fd);

    return status ? status : leave(file, fd, TUTTI_OK);
}

static tutti_status file_append(tutti_store *store, const char *key, struct store_slice value,
                                const struct store_time *time)
{
    struct file_store *file = (struct file_store *)store;
    struct store_buffer records = {0}, joined = {0};
    struct store_slice old = {NULL, 0};
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;
    (void)lookup(file, key, &old);
    if (value.size > TUTTI_STORE_MAX_VALUE - old.size)
        return leave(file, fd,
                     error_set(TUTTI_ERR_STORE, "a value of %zu bytes is more than the limit of %u",
                               old.size + value.size, TUTTI_STORE_MAX_VALUE));
    store_buffer_put(&joined, old.data, old.size);
    store_buffer_put(&joined, value.data, value.size);
    put_record(&records, "/", key, (struct store_slice){joined.data, joined.size});
    records.failed |= joined.failed;
    store_buffer_free(&joined);
    return leave(file, fd, store_file_log_append(&file->log, fd, &records));
}

static tutti_status file_remove(tutti_store *store, const char *key, const struct store_time *time,
                                bool *ret_existed)
{
    struct file_store *file = (struct file_store *)store;
    struct store_buffer records = {0};
    struct store_slice value;
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;

    const bool existed = lookup(file, key, &value);

    put_record(&records, "-/", key, literal(""));
    status = store_file_log_append(&file->log, fd, &records);
    if (!status)
        *ret_existed = existed;
    return leave(file, fd, status);
}

static tutti_status file_num_keys(tutti_store *store, const struct store_time *time,
                                  int64_t *ret_count)
{
    struct file_store *file = (struct file_store *)store;
    int fd;
    tutti_status status = enter(file, LOCK_SH, time, &fd);

    if (status)
        return status;
    *ret_count = (int64_t)store_map_count(file->log.map); /* with the two counters, as torch's */
    return leave(file, fd, TUTTI_OK);
}

/* Counts this member in, unless somebody has left already: then the file is an earlier job's. */
static tutti_status count_in(struct file_store *file, const struct store_time *time)
{
    struct store_buffer records = {0};
    int64_t left, members = 0;
    int fd;
    tutti_status status = enter(file, LOCK_EX, time, &fd);

    if (status)
        return status;
    status = read_number(file, literal("cleanup/"), &left);
    if (!status && left > 0)
        status = error_set(
            TUTTI_ERR_STALE,
            "the store file %s was left by an earlier job (%" PRId64
            " of its members have closed it): remove it, or give each run a path of its own",
            file->path, left);
    if (!status)
        status = read_number(file, literal("refcount/"), &members);
    if (!status) {
        put_number(&records, "", "refcount/", members + 1);
        status = store_file_log_append(&file->log, fd, &records);
    }
    return leave(file, fd, status);
}

/* Counts this member out; the last one of the world removes the file. */
static void count_out(struct file_store *file)
{
    struct store_buffer records = {0};
    const struct store_time time = {CLOSE_MS, clock_deadline_ms(CLOSE_MS)};
    int64_t left, members;
    int fd;

    if (enter(file, LOCK_EX, &time, &fd))
        return;
    if (!read_number(file, literal("cleanup/"), &left) &&
        !read_number(file, literal("refcount/"), &members)) {
        put_number(&records, "", "cleanup/", ++left);
        put_number(&records, "", "refcount/", --members);
        if (!store_file_log_append(&file->log, fd, &records) && file->world_size > 0 &&
            members == 0 && left >= file->world_size)
            (void)unlink(file->path);
    }
    (void)leave(file, fd, TUTTI_OK);
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
    .set = file_set,
    .get = file_get,
    .add = file_add,
    .compare_set = file_compare_set,
    .check = file_check,
    .wait = file_wait,
    .append = file_append,
    .remove = file_remove,
    .num_keys = file_num_keys,
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

    struct file_store *file = calloc(1, sizeof *file + strlen(path) + 1);

    if (!file)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store");
    store_init(&file->base, &file_ops);
    memcpy(file->path, path, strlen(path) + 1);
    file->log.path = file->path;
    file->world_size = world_size;
    status = store_turn_init(&file->turn);
    if (status) {
        free(file);
        return status;
    }
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
