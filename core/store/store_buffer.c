/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_buffer.h"

#include <stdlib.h>
#include <string.h>

uint8_t *store_buffer_reserve(struct store_buffer *buffer, size_t size)
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

void store_buffer_put(struct store_buffer *buffer, const void *data, size_t size)
{
    uint8_t *at = store_buffer_reserve(buffer, size);

    if (at && size) {
        memcpy(at, data, size);
        buffer->size += size;
    }
}

void store_buffer_put_u8(struct store_buffer *buffer, uint8_t value)
{
    store_buffer_put(buffer, &value, 1);
}

void store_buffer_put_u32(struct store_buffer *buffer, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 24)};

    store_buffer_put(buffer, bytes, sizeof bytes);
}

void store_buffer_put_u64(struct store_buffer *buffer, uint64_t value)
{
    store_buffer_put_u32(buffer, (uint32_t)value);
    store_buffer_put_u32(buffer, (uint32_t)(value >> 32));
}

void store_buffer_put_bytes(struct store_buffer *buffer, struct store_slice bytes)
{
    store_buffer_put_u64(buffer, bytes.size);
    store_buffer_put(buffer, bytes.data, bytes.size);
}

void store_buffer_consume(struct store_buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size && size)
        memmove(buffer->data, buffer->data + size, buffer->size);
}

void store_buffer_clear(struct store_buffer *buffer, size_t keep)
{
    buffer->size = 0;
    if (buffer->capacity > keep) {
        free(buffer->data);
        buffer->data = NULL;
        buffer->capacity = 0;
    }
}

void store_buffer_free(struct store_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct store_buffer){0};
}
