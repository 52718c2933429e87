/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of strings for cold code: names, paths, directories. The list owns a copy of each.
 *
 * Memory that runs out is remembered: the list keeps what it has, ignores what is added later, and
 * `failed` is true. So a caller adds as much as it likes and looks at `failed` once, at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strings {
    char **at;
    size_t count, room;
    bool failed;
};

/* A list that is freed where its block ends: STRINGS_AUTO(names); */
#define STRINGS_AUTO(name) __attribute__((cleanup(strings_free))) struct strings name = {0}

void strings_free(struct strings *list);
void strings_add(struct strings *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool strings_have(const struct strings *list, const char *string);
/* Sorts those from `first` on by their bytes. */
void strings_sort(struct strings *list, size_t first);
