/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of a store's server as a test writes it down: fields by letters, in the order of the
 * wire. 1, 4, 8: integers of so many bytes; b: u64 length and the bytes of a string; n: a u64 that
 * is a count or length on its own.
 */
#pragma once

#include <stdarg.h>
#include <string.h>

#include "store/store_wire.h"

static inline void talk_put(struct buffer *out, const char *fields, va_list args)
{
    for (; *fields; fields++) {
        if (*fields == '1') {
            buffer_put_uint(out, (uint8_t)va_arg(args, int), 1);
        } else if (*fields == '4') {
            buffer_put_uint(out, va_arg(args, uint32_t), 4);
        } else if (*fields == '8' || *fields == 'n') {
            buffer_put_uint(out, (uint64_t)va_arg(args, long), 8);
        } else {
            const char *text = va_arg(args, const char *);

            buffer_put_bytes(out, (struct slice){text, strlen(text)});
        }
    }
}

/* Bytes of one message, to be freed with buffer_free(). */
static inline struct buffer talk(const char *fields, ...)
{
    struct buffer out = {0};
    va_list args;

    va_start(args, fields);
    talk_put(&out, fields, args);
    va_end(args);
    return out;
}
