/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of errors: the core's services, as they were given with a call. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include <tutti/plugin.h>

struct caller {
    const tutti_host *host;
    void *host_self;
};

/* Gives the message to the core and returns the status. */
static inline tutti_status __attribute__((format(printf, 3, 4)))
refuse(const struct caller *c, tutti_status status, const char *format, ...)
{
    char words[600];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return c->host->error(c->host_self, status, 0, words);
}
