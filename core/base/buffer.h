/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing run of bytes whose allocation may fail: once it has, or once it would pass `limit`,
 * `failed` stays set and further bytes are dropped, so that a message is built without a check
 * after every field and refused as a whole at the end. Integers are little-endian.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice { /* bytes of somebody else */
    const void *data;
    size_t size;
};

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}

struct buffer {
    uint8_t *data;
    size_t size, capacity;
    size_t limit; /* 0: none but memory */
    bool failed;
    bool full; /* that was because of the limit */
};

/* Room for `size` more bytes behind the last; NULL sets `failed`. The bytes do not count yet. */
uint8_t *buffer_reserve(struct buffer *buffer, size_t size);
void buffer_put(struct buffer *buffer, const void *data, size_t size);
/* An integer in so many bytes. */
void buffer_put_uint(struct buffer *buffer, uint64_t value, unsigned bytes);
/* u64 length, then the bytes. */
void buffer_put_bytes(struct buffer *buffer, struct slice bytes);

/* Drops the first `size` bytes. */
void buffer_consume(struct buffer *buffer, size_t size);
/* Empties it; memory beyond `keep` bytes goes back. */
void buffer_clear(struct buffer *buffer, size_t keep);
void buffer_free(struct buffer *buffer);
