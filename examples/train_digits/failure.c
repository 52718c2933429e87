/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

bool failure_set(struct failure *why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why->words, sizeof why->words, format, arguments);
    va_end(arguments);
    return false;
}
