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

struct store_slice { /* bytes of somebody else */
    const void *data;
    size_t size;
};

static inline struct store_slice store_slice_of(const char *text)
{
    return (struct store_slice){text, strlen(text)};
}

static inline bool store_slice_equal(struct store_slice a, struct store_slice b)
{
    return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}

struct store_buffer {
    uint8_t *data;
    size_t size, capacity;
    size_t limit; /* 0: none but memory */
    bool failed;
    bool full; /* that was because of the limit */
};

/* Room for `size` more bytes behind the last; NULL sets `failed`. The bytes do not count yet. */
uint8_t *store_buffer_reserve(struct store_buffer *buffer, size_t size);
void store_buffer_put(struct store_buffer *buffer, const void *data, size_t size);
void store_buffer_put_u8(struct store_buffer *buffer, uint8_t value);
void store_buffer_put_u32(struct store_buffer *buffer, uint32_t value);
void store_buffer_put_u64(struct store_buffer *buffer, uint64_t value);
/* u64 length, then the bytes. */
void store_buffer_put_bytes(struct store_buffer *buffer, struct store_slice bytes);

/* Drops the first `size` bytes. */
void store_buffer_consume(struct store_buffer *buffer, size_t size);
/* Empties it; memory beyond `keep` bytes goes back. */
void store_buffer_clear(struct store_buffer *buffer, size_t keep);
void store_buffer_free(struct store_buffer *buffer);

static inline uint32_t store_load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t store_load_u64(const uint8_t *p)
{
    return (uint64_t)store_load_u32(p) | (uint64_t)store_load_u32(p + 4) << 32;
}
