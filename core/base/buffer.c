/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

uint8_t *buffer_reserve(struct buffer *buffer, size_t size)
{
    const size_t limit = buffer->limit ? buffer->limit : SIZE_MAX / 2;

    if (!buffer->failed && size > limit - buffer->size)
        buffer->failed = buffer->full = true;
    if (buffer->failed)
        return NULL;

    size_t wanted = buffer->size + size;

    if (wanted > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : 64;

        while (capacity < wanted)
            capacity += capacity / 2;

        uint8_t *data = realloc(buffer->data, capacity);

        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->size;
}

void buffer_put(struct buffer *buffer, const void *data, size_t size)
{
    uint8_t *at = buffer_reserve(buffer, size);

    if (at && size) {
        memcpy(at, data, size);
        buffer->size += size;
    }
}

void buffer_put_uint(struct buffer *buffer, uint64_t value, unsigned bytes)
{
    uint8_t out[8];

    uint_to_bytes(out, value, bytes);
    buffer_put(buffer, out, bytes);
}

void buffer_put_bytes(struct buffer *buffer, struct slice bytes)
{
    buffer_put_uint(buffer, bytes.size, 8);
    buffer_put(buffer, bytes.data, bytes.size);
}

void buffer_consume(struct buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size && size)
        memmove(buffer->data, buffer->data + size, buffer->size);
}

void buffer_clear(struct buffer *buffer, size_t keep)
{
    buffer->size = 0;
    if (buffer->capacity > keep) {
        free(buffer->data);
        buffer->data = NULL;
        buffer->capacity = 0;
    }
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
