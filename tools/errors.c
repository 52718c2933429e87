/* SPDX-License-Identifier: Apache-2.0 */
/* The errors of the files of core/ that the command has a copy of (base/error.h). The library's own are not
 * theirs: see cli_last_error() for those. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static _Thread_local char message[ERROR_MESSAGE_MAX];

tutti_status error_set_in(const char *function, tutti_status status, const char *format, ...)
{
    va_list args;

    (void)function;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text_make_printable(message);
    return status;
}

tutti_status error_set_errno(tutti_status status, int system_errno, const char *format, ...)
{
    va_list args;
    struct text text;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text = text_after(message, sizeof message);
    text_add(&text, ": %s", strerror(system_errno));
    text_make_printable(message);
    return status;
}

const char *error_message(void)
{
    return message;
}
