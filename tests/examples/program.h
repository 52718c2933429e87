/* SPDX-License-Identifier: Apache-2.0 */
/* Example programs run from a shell, as a user would, and what they print. */
#pragma once

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const backends[] = {"shm", "tcp"};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

/* What a shell command prints, until the next one; it must succeed. */
__attribute__((format(printf, 1, 2))) static inline const char *output_of(const char *format, ...)
{
    static char output[16384];
    char command[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = 0;
    cr_expect_eq(pclose(pipe), 0, "%s: %s", command, output);
    return output;
}

static inline void contains(const char *output, const char *line)
{
    cr_expect_not_null(strstr(output, line), "no «%s» in: %s", line, output);
}
