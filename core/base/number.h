/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text that people and launchers write: all of it is the number, or it is refused. */
#ifndef TUTTI_BASE_NUMBER_H
#define TUTTI_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number: '-' at most, then digits; no blanks, no '+', nothing after it. */
static inline bool number_parse(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    const bool negative = *text == '-';
    int64_t number = 0;

    text += negative;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        /* Counted downwards, where there is one number more. */
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, *text - '0', &number))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, number, &number))
        return false;
    if (number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

#endif
