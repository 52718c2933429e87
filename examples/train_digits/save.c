/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDX_TYPE_FLOAT 0x0d

bool save_possible(const char *path, struct failure *why)
{
    char folder[PATH_MAX];
    struct stat status;

    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return failure_set(why, "cannot write %.64s...: %s", path, strerror(ENAMETOOLONG));
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return failure_set(why, "cannot write %s: it is there and is not a regular file", path);
    if (access(dirname(folder), W_OK | X_OK) != 0)
        return failure_set(why, "cannot write %s: %s", path, strerror(errno));
    return true;
}

static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);

        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return true;
}

bool save_bytes(const char *path, const void *bytes, size_t size, struct failure *why)
{
    char temporary[PATH_MAX];

    if (!save_possible(path, why))
        return false;
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >=
        (int)sizeof temporary)
        return failure_set(why, "cannot write %.64s...: %s", path, strerror(ENAMETOOLONG));
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return failure_set(why, "cannot write %s: %s", temporary, strerror(errno));

    bool ok = write_all(fd, bytes, size) && fsync(fd) == 0;
    int error = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(temporary, path) == 0)
        return true;
    if (ok)
        error = errno;
    unlink(temporary);
    return failure_set(why, "cannot write %s: %s", path, strerror(error));
}

static void put_big_endian(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

bool save_weights(const char *path, const float *weights, size_t count, struct failure *why)
{
    const size_t size = 8 + 4 * count;
    uint8_t *bytes = malloc(size);

    if (!bytes)
        return failure_set(why, "no memory to write %s", path);
    put_big_endian(bytes, IDX_TYPE_FLOAT << 8 | 1);
    put_big_endian(bytes + 4, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &weights[i], sizeof bits);
        put_big_endian(bytes + 8 + 4 * i, bits);
    }
    bool ok = save_bytes(path, bytes, size, why);
    free(bytes);
    return ok;
}
