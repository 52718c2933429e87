/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a file store, in the format of torch's FileStore: records of u32 key length, key, u32
 * value length, value, one after the other; the last of a key wins. Keys of users begin with '/'; a
 * record whose key begins with '-' deletes the key that follows the '-'; `refcount/` and `cleanup/`
 * count the processes that have opened and closed the file, and `refcount/` is the first record.
 *
 * The file is opened anew for every operation and locked as a whole with flock(2), as torch does
 * (locks of fcntl would not exclude it): exclusive to write, shared to read. Under the lock each
 * process first reads what others have appended since. A lock is asked for without blocking, again
 * and again until the deadline, since its holder may be a stopped process; it is given back
 * explicitly, because a child forked meanwhile shares it.
 *
 * A process that is killed may leave a record unfinished: readers stop before it, the next writer
 * cuts it off. The file is the same one for the life of the store: one that was removed, replaced
 * or has shrunk is an error.
 */
#pragma once

#include "store/store.h"
#include "store/store_map.h"

struct store_file_log {
    const char *path;
    struct store_map *map; /* the contents up to `read` */
    int64_t read;          /* the end of the last whole record seen */
    int fd;                /* between enter and leave */
    bool known;            /* device and inode are */
    dev_t device;
    ino_t inode;
};

enum { STORE_FILE_FIRST_PAUSE_US = 200, STORE_FILE_LAST_PAUSE_US = 10 * 1000 /* torch's */ };

/* Opens, locks (LOCK_SH or LOCK_EX) and reads to the end. Creates the file the first time. */
tutti_status store_file_log_enter(struct store_file_log *log, int operation,
                                  const struct store_time *time);
void store_file_log_leave(struct store_file_log *log);
/* Appends records behind the last whole one, all or none, and applies them. Frees them. */
tutti_status store_file_log_append(struct store_file_log *log, struct buffer *records);
