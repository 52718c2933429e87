/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of a library that this process has loaded. */
#pragma once

#include <stdbool.h>

enum { LOADED_PATH_BYTES = 4096 };

/* Paths; "": there is none. */
struct loaded_copies {
    char first[LOADED_PATH_BYTES], second[LOADED_PATH_BYTES];
};

/* Those whose file is NAME.so or NAME.so.N, or NAME-….so as wheels rename them. */
void loaded_find(const char *name, struct loaded_copies *ret_copies);

/* Whether both paths lead to one file. */
bool loaded_is_same_file(const char *a, const char *b);
