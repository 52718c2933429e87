/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections: bytes in any fragmentation through the frame parser, each body through every
 * decoder that could be asked to read it. The first byte picks the fragmentation.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agreement/agree_wire.h"
#include "control/frame.h"

enum { MEMBERS = 7, LIMIT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *body, size_t size)
{
    static struct report report;
    static struct outcome outcome;
    static struct offer offer;
    static struct decision decision;

    (void)report_decode(body, size, MEMBERS, &report);
    (void)outcome_decode(body, size, MEMBERS, &outcome);
    (void)offer_decode(body, size, &offer);
    if (decision_decode(body, size, MEMBERS, &decision))
        decision_free(&decision);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_parser parser = {.limit = LIMIT};
    size_t step = size ? data[0] + 1u : 1;

    for (size_t at = 1; at < size;) {
        size_t n = size - at < step ? size - at : step;
        uint8_t *room;
        enum frame_type type;
        const uint8_t *body;
        size_t bytes;
        tutti_status status;

        if (frame_parser_room(&parser, n, &room))
            break;
        memcpy(room, data + at, n);
        parser.size += n;
        at += n;
        while (!(status = frame_parser_next(&parser, &type, &body, &bytes))) {
            decode(body, bytes);
            frame_parser_consume(&parser);
        }
        if (status != TUTTI_ERR_NOT_READY)
            break;
    }
    frame_parser_free(&parser);
    return 0;
}
