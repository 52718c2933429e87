/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian bytes in and out of bounded memory, for everything that members tell each other in
 * frames and store values. A writer that is full and a reader that runs past its end stay valid and
 * remember it: callers check `bad` once at the end. Readers never hand out lengths beyond what is
 * there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct writer {
    uint8_t *data;
    size_t size, capacity;
    bool bad;
};

struct reader {
    const uint8_t *data;
    size_t size, at;
    bool bad;
};

static inline void write_bytes(struct writer *w, const void *data, size_t size)
{
    if (w->bad || size > w->capacity - w->size) {
        w->bad = true;
        return;
    }
    if (size)
        memcpy(w->data + w->size, data, size);
    w->size += size;
}

/* An integer of so many bytes, at most 8. */
static inline void uint_to_bytes(uint8_t *ret_bytes, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        ret_bytes[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t uint_from_bytes(const uint8_t *data, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)data[i] << (8 * i);
    return value;
}

static inline void write_uint(struct writer *w, uint64_t value, unsigned bytes)
{
    uint8_t out[8];

    uint_to_bytes(out, value, bytes);
    write_bytes(w, out, bytes);
}

static inline void write_u8(struct writer *w, uint8_t value)
{
    write_uint(w, value, 1);
}
static inline void write_u16(struct writer *w, uint16_t value)
{
    write_uint(w, value, 2);
}
static inline void write_u32(struct writer *w, uint32_t value)
{
    write_uint(w, value, 4);
}
static inline void write_u64(struct writer *w, uint64_t value)
{
    write_uint(w, value, 8);
}

/* A length of 32 bits, then the bytes. */
static inline void write_blob(struct writer *w, const void *data, size_t size)
{
    if (size > UINT32_MAX) {
        w->bad = true;
        return;
    }
    write_u32(w, (uint32_t)size);
    write_bytes(w, data, size);
}

static inline void write_string(struct writer *w, const char *text)
{
    write_blob(w, text, strlen(text));
}

static inline const uint8_t *read_bytes(struct reader *r, size_t size)
{
    if (r->bad || size > r->size - r->at) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->data + r->at;
    r->at += size;
    return p;
}

static inline uint64_t read_uint(struct reader *r, unsigned bytes)
{
    const uint8_t *p = read_bytes(r, bytes);

    return p ? uint_from_bytes(p, bytes) : 0;
}

static inline uint8_t read_u8(struct reader *r)
{
    return (uint8_t)read_uint(r, 1);
}
static inline uint16_t read_u16(struct reader *r)
{
    return (uint16_t)read_uint(r, 2);
}
static inline uint32_t read_u32(struct reader *r)
{
    return (uint32_t)read_uint(r, 4);
}
static inline uint64_t read_u64(struct reader *r)
{
    return read_uint(r, 8);
}

static inline const uint8_t *read_blob(struct reader *r, size_t *ret_size)
{
    size_t size = read_u32(r);
    const uint8_t *p = read_bytes(r, size);

    *ret_size = p ? size : 0;
    return p;
}

/* Into `ret_text`, always terminated; text that does not fit, or that holds a NUL, is bad. */
static inline void read_string(struct reader *r, char *ret_text, size_t capacity)
{
    size_t size;
    const uint8_t *p = read_blob(r, &size);

    ret_text[0] = 0;
    if (!p)
        return;
    if (size >= capacity || memchr(p, 0, size)) {
        r->bad = true;
        return;
    }
    memcpy(ret_text, p, size);
    ret_text[size] = 0;
}
