/* SPDX-License-Identifier: Apache-2.0 */
#include "idx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define TYPE_UNSIGNED_BYTE 0x08
#define READ_CHUNK (1u << 20)

/* zlib's message, or the system's if a system call failed. */
static const char *reason(gzFile file)
{
    int code = Z_OK;
    const char *words = gzerror(file, &code);

    return code == Z_ERRNO ? strerror(errno) : words;
}

/* Reads exactly `size` bytes; `what` names them in the message of a failure. */
static bool read_bytes(gzFile file, const char *path, const char *what, uint8_t *ret_bytes,
                       size_t size, struct failure *why)
{
    size_t have = 0;

    while (have < size) {
        size_t want = size - have < READ_CHUNK ? size - have : READ_CHUNK;
        int got = gzread(file, ret_bytes + have, (unsigned)want);

        if (got < 0)
            return failure_set(why, "cannot read %s: %s", path, reason(file));
        if (got == 0)
            return failure_set(why, "%s is cut short: its %s should have %zu bytes, there are %zu",
                               path, what, size, have);
        have += (size_t)got;
    }
    return true;
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool read_header(gzFile file, const char *path, int dimensions, struct idx *ret_idx,
                        struct failure *why)
{
    uint8_t header[4 + 4 * IDX_MAX_DIMENSIONS];
    uint64_t size = 1;

    if (!read_bytes(file, path, "header", header, 4 + 4 * (size_t)dimensions, why))
        return false;
    if (header[0] || header[1] || header[2] != TYPE_UNSIGNED_BYTE || header[3] != dimensions)
        return failure_set(why,
                           "%s begins with %02x%02x%02x%02x, not with 0000%02x%02x: it is not an "
                           "IDX file of bytes with %d dimension%s",
                           path, header[0], header[1], header[2], header[3], TYPE_UNSIGNED_BYTE,
                           (unsigned)dimensions, dimensions, dimensions == 1 ? "" : "s");
    for (int i = 0; i < IDX_MAX_DIMENSIONS; i++) {
        ret_idx->extent[i] = i < dimensions ? big_endian(header + 4 + 4 * i) : 1;
        if (ret_idx->extent[i] == 0)
            return failure_set(why, "%s is empty: its dimension %d is 0", path, i);
        if (ret_idx->extent[i] > IDX_MAX_BYTES / size)
            return failure_set(why, "%s claims more than %u MiB, the most that is read", path,
                               (unsigned)(IDX_MAX_BYTES >> 20));
        size *= ret_idx->extent[i];
    }
    ret_idx->size = (size_t)size;
    return true;
}

/* Reading past the last element also makes zlib check the checksum of a compressed file. */
static bool check_end(gzFile file, const char *path, struct failure *why)
{
    uint8_t extra;
    int got = gzread(file, &extra, 1);

    if (got < 0)
        return failure_set(why, "cannot read %s: %s", path, reason(file));
    if (got > 0)
        return failure_set(why, "%s goes on after the last element that its header promises", path);
    return true;
}

static bool read_elements(gzFile file, const char *path, struct idx *idx, struct failure *why)
{
    idx->bytes = malloc(idx->size);
    if (!idx->bytes)
        return failure_set(why, "no memory for the %zu bytes of %s", idx->size, path);
    if (read_bytes(file, path, "content", idx->bytes, idx->size, why) && check_end(file, path, why))
        return true;
    free(idx->bytes);
    return false;
}

bool idx_read(const char *path, int dimensions, struct idx *ret_idx, struct failure *why)
{
    struct idx idx = {0};

    errno = 0;
    gzFile file = gzopen(path, "rbe");
    if (!file)
        return failure_set(why, "cannot open %s: %s", path, strerror(errno ? errno : ENOMEM));

    bool ok =
        read_header(file, path, dimensions, &idx, why) && read_elements(file, path, &idx, why);
    int closed = gzclose_r(file);

    if (ok && closed != Z_OK) {
        free(idx.bytes);
        return failure_set(why, "%s is cut short: its compressed stream does not end", path);
    }
    if (ok)
        *ret_idx = idx;
    return ok;
}
