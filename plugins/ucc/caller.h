/* SPDX-License-Identifier: Apache-2.0 */
/* The core's services as they came with a call. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include <tutti/plugin_engine.h>

struct caller {
    const tutti_host *host;
    void *self;
};

enum { WORDS_BYTES = 700 };

/* Gives the message of a failure to the core. Returns `status`. */
static inline tutti_status __attribute__((format(printf, 3, 4)))
refuse(const struct caller *c, tutti_status status, const char *format, ...)
{
    char words[WORDS_BYTES];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(words, sizeof words, format, values);
    va_end(values);
    return c->host->error(c->self, status, 0, words);
}
