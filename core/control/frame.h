/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the control connections: u32 length of the body, u8 type, 3 zero bytes, body;
 * everything little-endian. The parser is fed with whatever bytes have come and hands out whole
 * frames; it does no input or output, so that a fuzzer can drive it.
 *
 * A frame has at most as many bytes as the parser's limit. The proof that both sides are members comes
 * before the first one, and is none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

enum frame_type {
    FRAME_WELCOME = 1, /* to the dialer: its proof was right */
    FRAME_REPORT,      /* up the tree: a member's state in a round */
    FRAME_ROSTER,      /* down the tree: how to reach everybody */
    FRAME_OUTCOME,     /* down the tree: what the round's outcome key says */
    FRAME_PROPOSE,     /* to the lowest living member: a cause */
    FRAME_VERDICT,     /* to everybody: why the group ended */
    FRAME_LEAVE,       /* to everybody: a member left in order */
    FRAME_NOTE,        /* to the first member: what somebody there wants to know */
    FRAME_QUERY,       /* to a member that has not timed out: how far has it called? */
    FRAME_HERE,        /* the answer */
    FRAME_HEARD,       /* to a member that left: its leave message is known here */
    FRAME_GATHER,      /* up the tree: bytes of a provider's gather; gather.c */
    FRAME_GATHERED,    /* down the tree: the bytes of all members */
    FRAME_TYPES
};

enum { FRAME_HEADER = 8, FRAME_READ_AHEAD = 4096 };

struct frame_parser {
    uint8_t *data;
    size_t size, capacity;
    size_t limit; /* of a whole frame */
};

/* Room for at least `wanted` (at most FRAME_READ_AHEAD) more bytes, of which the caller adds to `size` what it
 * has filled: OK, DENIED when more than the limit lies unread, NO_MEMORY. */
tutti_status frame_parser_room(struct frame_parser *parser, size_t wanted, uint8_t **ret_room);

/*
 * The first whole frame: OK with type and body (valid until frame_parser_consume), NOT_READY when
 * more bytes are needed, DENIED when the bytes are nonsense.
 */
tutti_status frame_parser_next(const struct frame_parser *parser, enum frame_type *ret_type,
                               const uint8_t **ret_body, size_t *ret_size);
/* Drops the first frame. */
void frame_parser_consume(struct frame_parser *parser);
void frame_parser_free(struct frame_parser *parser);

/* Writes the header of a frame whose body has `size` bytes. */
void frame_header(uint8_t ret_header[FRAME_HEADER], enum frame_type type, size_t size);
