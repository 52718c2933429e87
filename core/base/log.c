/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"

static const char *const names[] = {"off", "warning", "info", "detail"};

static enum log_level level_from_environment(void)
{
    static const char *const levels[] = {"OFF", "WARN", "INFO", "DETAIL"};
    const char *value = getenv("TUTTI_DEBUG");

    for (int i = LOG_OFF; value && i <= LOG_DETAIL; i++)
        if (!strcasecmp(value, levels[i]))
            return (enum log_level)i;
    return LOG_WARN;
}

bool log_enabled(enum log_level level)
{
    static _Atomic int known = -1;
    int current = atomic_load_explicit(&known, memory_order_relaxed);

    if (current < 0) {
        current = (int)level_from_environment();
        atomic_store_explicit(&known, current, memory_order_relaxed);
    }
    return (int)level <= current;
}

void log_line(enum log_level level, int rank, const char *format, ...)
{
    char line[2304], text[2048];
    va_list args;

    if (!log_enabled(level))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_printable(text);

    int n = rank >= 0 ? snprintf(line, sizeof line, "tutti[%d] %s: %s\n", rank, names[level], text)
                      : snprintf(line, sizeof line, "tutti %s: %s\n", names[level], text);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
}
