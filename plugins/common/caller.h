/* SPDX-License-Identifier: Apache-2.0 */
/* The core's services as they came with a call, for those who give messages to it. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include <tutti/plugin.h>

struct caller {
    const tutti_host *host;
    void *self;
};

enum { WORDS_BYTES = 900 };

/* Gives the message of a failure to the core, which adds what `system_errno` means unless that is 0. Returns `status`. */
static inline tutti_status __attribute__((format(printf, 4, 5)))
fail(const struct caller *c, tutti_status status, int system_errno, const char *format, ...)
{
    char words[WORDS_BYTES];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(words, sizeof words, format, values);
    va_end(values);
    return c->host->error(c->self, status, system_errno, words);
}
