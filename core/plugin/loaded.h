/* SPDX-License-Identifier: Apache-2.0 */
/* The list of loaded plugins, and how a file gets there. The list only grows, at its head, so a
 * thread that has its head may walk it without a lock. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/plugin.h>
#include <tutti/status.h>

struct loaded {
    struct loaded *next;
    const tutti_plugin *plugin;
    pid_t pid;        /* that it was loaded in */
    uint32_t started; /* kinds of its providers, a bit each: plugin_started() */
    bool left;        /* plugins_leave() has told it */
    char path[];      /* real path; "" when registered by the program */
};

struct loaded *loaded_first(void);

/* The findings about one file, also when it is refused. */
struct inspection {
    char real[PATH_MAX];
    uint32_t major, minor; /* of the note */
    const tutti_plugin *plugin;
    bool lacks_library; /* refused, since a library that it is linked with is not installed */
};

/* Judges the file at `path`, which must be the plugin `name`, opens it and adds it to the list. */
tutti_status loaded_inspect(const char *path, const char *name, struct inspection *inspection);
