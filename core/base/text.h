/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside: names and reasons that a program gives, words of another process, names of files.
 * It ends on terminals, where a control character is a command, and in JSON, which is UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text`, 0: it is none, or the end. Overlong forms and surrogates are
 * none. */
size_t text_character(const char *text);
/* Bytes of its beginning that have room in `most`, whole characters only; a byte that belongs to none
 * is one by itself. */
size_t text_cut(const char *text, size_t most);
/* The arguments of "%.*s" for the beginning of a text, as text_cut() gives it. */
#define TEXT_CUT(text, most) (int)text_cut(text, most), (text)
/* Whether it is UTF-8 without control characters. */
bool text_is_printable(const char *text);
/* Makes it such: a control character, and each byte that belongs to no character, becomes '?'s. */
void text_make_printable(char *text);

/* Whether the `length` bytes at `text` are this word. */
static inline bool text_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(text, word, length);
}
/* Whether it may be a plugin's name: a lower-case letter, then letters, digits, '_' and '-'. */
enum { TEXT_NAME_MAX = 31 };
bool text_is_name(const char *text);
/* Whether a list with commas, and spaces behind them, has the word. */
bool text_list_has(const char *list, const char *word);
/* A decimal number that is all of the text, from min to max: '-' at most, then digits; no blanks, no '+'. */
bool text_number(const char *text, int64_t min, int64_t max, int64_t *ret_number);

/* Text that grows in a buffer of fixed size: what has no room is left out, between characters. */
struct text {
    char *at; /* the buffer, always terminated */
    size_t size, used;
};
static inline struct text text_in(char *buffer, size_t size)
{
    *buffer = 0;
    return (struct text){.at = buffer, .size = size};
}
/* Goes on behind what a buffer holds. */
static inline struct text text_after(char *buffer, size_t size)
{
    return (struct text){.at = buffer, .size = size, .used = strlen(buffer)};
}
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
