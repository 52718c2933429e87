/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t text_character(const char *text)
{
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t length;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    const unsigned char *s = (const unsigned char *)text;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (s[0] < forms[i].low || s[0] > forms[i].high)
            continue;
        if (forms[i].length > 1 && (s[1] < forms[i].second_low || s[1] > forms[i].second_high))
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if ((s[k] & 0xc0) != 0x80) /* also the end: nothing is read beyond it */
                return 0;
        return forms[i].length;
    }
    return 0;
}

size_t text_cut(const char *text, size_t most)
{
    size_t size = 0;

    while (text[size]) {
        const size_t length = text_character(text + size), next = size + (length ? length : 1);

        if (next > most)
            break;
        size = next;
    }
    return size;
}

/* Whether a whole character is a control character; U+0080 to U+009F are commands too. */
static bool is_control(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    return *s < ' ' || *s == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

/* The first that is none, or the end. */
static char *first_unprintable(char *text)
{
    for (size_t length; (length = text_character(text)) && !is_control(text);)
        text += length;
    return text;
}

bool text_is_printable(const char *text)
{
    return !*first_unprintable((char *)text);
}

void text_make_printable(char *text)
{
    for (char *bad; *(bad = first_unprintable(text)); text = bad) {
        size_t length = text_character(bad);

        memset(bad, '?', length ? length : 1);
    }
}

bool text_is_name(const char *text)
{
    const size_t length = strlen(text);

    return *text >= 'a' && *text <= 'z' && length <= TEXT_NAME_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

bool text_list_has(const char *list, const char *word)
{
    while (*list) {
        const size_t length = strcspn(list, ",");

        if (text_is(list, length, word))
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

bool text_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
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

void text_add(struct text *text, const char *format, ...)
{
    const size_t room = text->size - text->used;
    va_list args;

    if (!room)
        return;
    va_start(args, format);
    int length = vsnprintf(text->at + text->used, room, format, args);
    va_end(args);

    if (length >= 0 && (size_t)length < room) {
        text->used += (size_t)length;
        return;
    }
    /* A cut may have split the last character. Nothing follows a cut. */
    size_t end = text->used + strlen(text->at + text->used), last = end;

    while (last > text->used && (text->at[last - 1] & 0xc0) == 0x80)
        last--;
    if (last > text->used && text->at[last - 1] & 0x80 && !text_character(text->at + last - 1))
        end = last - 1;
    text->at[end] = 0;
    text->used = end;
    text->size = end;
}
