/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_file_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/error.h"

enum { READ_BYTES = 64 << 10 };

static tutti_status check_identity(struct store_file_log *log)
{
    struct stat status;

    if (fstat(log->fd, &status) != 0)
        return error_set_errno(TUTTI_ERR_STORE, errno, "store file %s", log->path);
    if (!S_ISREG(status.st_mode))
        return error_set(TUTTI_ERR_STORE, "store file %s: not a regular file", log->path);
    if (log->known && (status.st_dev != log->device || status.st_ino != log->inode))
        return error_set(
            TUTTI_ERR_STALE,
            "store file %s was replaced by another one; give each run a path of its own",
            log->path);
    if (status.st_size < log->read)
        return error_set(TUTTI_ERR_STORE,
                         "store file %s has shrunk; is another program writing to it?", log->path);
    log->known = true;
    log->device = status.st_dev;
    log->inode = status.st_ino;
    return TUTTI_OK;
}

static tutti_status open_file(struct store_file_log *log)
{
    /* O_NONBLOCK: a path that is a pipe must not block before it is refused */
    const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (log->known ? 0 : O_CREAT);

    log->fd = open(log->path, flags, 0644);
    if (log->fd < 0)
        return error_set_errno(TUTTI_ERR_STORE, errno, "cannot open the store file %s", log->path);

    tutti_status status = check_identity(log);

    if (status)
        close(log->fd);
    return status;
}

static tutti_status lock_file(struct store_file_log *log, int operation,
                              const struct store_time *time)
{
    int pause_us = STORE_FILE_FIRST_PAUSE_US;

    while (flock(log->fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_set_errno(TUTTI_ERR_STORE, errno, "cannot lock the store file %s",
                                   log->path);
        if (!store_pause(&pause_us, STORE_FILE_LAST_PAUSE_US, time))
            return error_set(TUTTI_ERR_TIMEOUT,
                             "the store file %s was locked by another process for %" PRId64 " ms",
                             log->path, time->ms);
    }
    return TUTTI_OK;
}

static tutti_status apply(struct store_file_log *log, struct slice key, struct slice value)
{
    const char *name = key.data;

    if (!key.size || name[0] != '-')
        return store_map_set(log->map, key, value);
    store_map_delete(log->map, (struct slice){name + 1, key.size - 1});
    return TUTTI_OK;
}

/* Checks the first record: a file with other contents is some other file, and must not be
 * written to. */
static tutti_status check_first(const struct store_file_log *log, struct slice key)
{
    static const char first[] = "refcount/";

    if (log->read == 0 && !slice_equal(key, slice_of(first)))
        return error_set(TUTTI_ERR_STORE,
                         "%s is not a store file: it does not begin with \"%s\"; use another path",
                         log->path, first);
    return TUTTI_OK;
}

/* Reads one length and the bytes after it; `r->bad`: the rest of it has not been read yet. */
static tutti_status take_bytes(const struct store_file_log *log, struct reader *r, uint32_t limit,
                               struct slice *ret_taken)
{
    const uint32_t size = read_u32(r);

    if (size > limit)
        return error_set(TUTTI_ERR_STORE,
                         "%s is not a store file: a record after byte %" PRId64
                         " announces %u bytes, at most %u are allowed",
                         log->path, log->read, size, limit);
    const uint8_t *data = read_bytes(r, size);
    *ret_taken = (struct slice){data, data ? size : 0};
    return TUTTI_OK;
}

/* Applies the whole records in `bytes`, which begin at `log->read`, and drops them. */
static tutti_status apply_records(struct store_file_log *log, struct buffer *bytes)
{
    struct reader r = {.data = bytes->data, .size = bytes->size};
    size_t done = 0;
    tutti_status status = TUTTI_OK;

    while (!status) {
        struct slice key, value;

        status = take_bytes(log, &r, TUTTI_STORE_MAX_KEY + 1, &key);
        if (!status)
            status = take_bytes(log, &r, TUTTI_STORE_MAX_VALUE, &value);
        if (status || r.bad)
            break;
        status = check_first(log, key);
        if (!status)
            status = apply(log, key, value);
        if (!status) {
            log->read += (int64_t)(r.at - done);
            done = r.at;
        }
    }
    buffer_consume(bytes, done);
    return status;
}

/* Brings the map up to the end of the file. The caller holds a lock. */
static tutti_status refresh(struct store_file_log *log)
{
    struct buffer bytes = {0};
    tutti_status status = TUTTI_OK;

    while (!status) {
        uint8_t *room = buffer_reserve(&bytes, READ_BYTES);

        if (!room) {
            status =
                error_set(TUTTI_ERR_NO_MEMORY, "no memory to read the store file %s", log->path);
            break;
        }

        const ssize_t n = pread(log->fd, room, READ_BYTES, log->read + (int64_t)bytes.size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status =
                error_set_errno(TUTTI_ERR_STORE, errno, "cannot read the store file %s", log->path);
        if (n == 0 && log->read == 0 && bytes.size)
            status = error_set(TUTTI_ERR_STORE,
                               "%s is not a store file: it has no whole record; use another path",
                               log->path);
        if (n <= 0)
            break;
        bytes.size += (size_t)n;
        status = apply_records(log, &bytes);
    }
    buffer_free(&bytes);
    return status;
}

void store_file_log_leave(struct store_file_log *log)
{
    (void)flock(log->fd, LOCK_UN);
    close(log->fd);
}

tutti_status store_file_log_enter(struct store_file_log *log, int operation,
                                  const struct store_time *time)
{
    tutti_status status = open_file(log);

    if (status)
        return status;
    status = lock_file(log, operation, time);
    if (!status)
        status = refresh(log);
    if (status)
        store_file_log_leave(log);
    return status;
}

tutti_status store_file_log_append(struct store_file_log *log, struct buffer *records)
{
    const int64_t end = log->read;
    size_t written = 0;
    int error = records->failed ? ENOMEM : ftruncate(log->fd, end) != 0 ? errno : 0;

    while (!error && written < records->size) {
        const ssize_t n = pwrite(log->fd, records->data + written, records->size - written,
                                 end + (int64_t)written);

        if (n >= 0)
            written += (size_t)n;
        else if (errno != EINTR)
            error = errno;
    }
    buffer_free(records);
    if (error) {
        const int ignored = ftruncate(log->fd, end); /* else the next writer does it */

        (void)ignored;
        return error_set_errno(TUTTI_ERR_STORE, error, "cannot write to the store file %s",
                               log->path);
    }
    return refresh(log);
}
