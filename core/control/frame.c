/* SPDX-License-Identifier: Apache-2.0 */
#include "control/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

tutti_status frame_parser_room(struct frame_parser *parser, size_t wanted, uint8_t **ret_room)
{
    if (parser->capacity - parser->size < wanted) {
        size_t needed = parser->size + wanted;

        if (needed > parser->limit + FRAME_READ_AHEAD)
            return TUTTI_ERR_DENIED;
        size_t capacity = parser->capacity ? parser->capacity : 512;
        while (capacity < needed)
            capacity *= 2;
        uint8_t *data = realloc(parser->data, capacity);
        if (!data)
            return TUTTI_ERR_NO_MEMORY;
        parser->data = data;
        parser->capacity = capacity;
    }
    *ret_room = parser->data + parser->size;
    return TUTTI_OK;
}

static size_t body_size(const struct frame_parser *parser)
{
    struct reader r = {.data = parser->data, .size = parser->size};

    return read_u32(&r);
}

tutti_status frame_parser_next(const struct frame_parser *parser, enum frame_type *ret_type,
                               const uint8_t **ret_body, size_t *ret_size)
{
    if (parser->size < FRAME_HEADER)
        return TUTTI_ERR_NOT_READY;

    size_t size = body_size(parser);
    uint8_t type = parser->data[4];
    if (size > parser->limit - FRAME_HEADER || !type || type >= FRAME_TYPES || parser->data[5] ||
        parser->data[6] || parser->data[7])
        return TUTTI_ERR_DENIED;
    if (parser->size - FRAME_HEADER < size)
        return TUTTI_ERR_NOT_READY;
    *ret_type = (enum frame_type)type;
    *ret_body = parser->data + FRAME_HEADER;
    *ret_size = size;
    return TUTTI_OK;
}

void frame_parser_consume(struct frame_parser *parser)
{
    size_t used = FRAME_HEADER + body_size(parser);

    parser->size -= used;
    memmove(parser->data, parser->data + used, parser->size);
}

void frame_parser_free(struct frame_parser *parser)
{
    free(parser->data);
    *parser = (struct frame_parser){.limit = parser->limit};
}

void frame_header(uint8_t ret_header[FRAME_HEADER], enum frame_type type, size_t size)
{
    struct writer w = {.data = ret_header, .capacity = FRAME_HEADER};

    write_u32(&w, (uint32_t)size);
    write_u32(&w, (uint32_t)type);
}
