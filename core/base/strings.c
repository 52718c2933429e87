/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strings_free(struct strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->at[i]);
    free(list->at);
    *list = (struct strings){0};
}

static bool has_room(struct strings *list)
{
    if (list->count < list->room)
        return true;

    const size_t room = list->room ? 2 * list->room : 16;
    char **at = reallocarray(list->at, room, sizeof *at);

    if (!at)
        return false;
    list->at = at;
    list->room = room;
    return true;
}

void strings_add(struct strings *list, const char *format, ...)
{
    char *string;
    va_list args;

    if (list->failed)
        return;
    va_start(args, format);
    list->failed = !has_room(list) || vasprintf(&string, format, args) < 0;
    va_end(args);
    if (!list->failed)
        list->at[list->count++] = string;
}

bool strings_have(const struct strings *list, const char *string)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->at[i], string))
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void strings_sort(struct strings *list, size_t first)
{
    if (first < list->count)
        qsort(list->at + first, list->count - first, sizeof *list->at, by_bytes);
}
