/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that the process's environment has for a moment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct environment {
    char **before;     /* the environment of the process */
    char **lent;       /* with the variables in front, NULL at the end */
    char **original;   /* a copy of `lent` */
    size_t count;      /* entries of it */
    char *const *list; /* what was asked for */
    size_t length;
};

/*
 * Adds UCX_HANDLE_ERRORS=none, UCX_DEBUG_SIGNO=0 and UCX_MEM_MMAP_HOOK_MODE=none to the environment, each
 * unless it is set. False: nothing was changed, since all are set or there is no memory.
 */
bool environment_lend(struct environment *environment);
/* The same for other variables, "NAME=VALUE" with names of at most 63 letters, which stay valid for ever. */
bool environment_lend_these(struct environment *environment, char *const *list, size_t length);
/* Once after each of them that returned true. */
void environment_take_back(struct environment *environment);
