/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens each plugin's file in a child process of its own: loading runs the plugin's code, which may
 * crash, hang, print, or not get on with the engine of the plugin before it. A plugin that tutti knows and
 * that has no file is listed, too.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

struct probed {
    char *name, *path, *version, *license;
    char *reason; /* "" when ready */
    char *provides;
    char *finds;       /* the driver and its devices, a line each; "": it drives none */
    const char *state; /* "ready", "not built", "library missing", "refused" */
    unsigned abi_major, abi_minor;
    gboolean ready, lacks_library;
    GVariant *options;                       /* of probed_option; NULL: it has not told */
    guint64 message_ps, further_ps, byte_ps; /* the cost of its messages; all 0: it says none */
};

/* Variable, values, default, meaning, and whether it is compared between ranks. */
#define PROBED_OPTION "(ssssb)"

/* An array of struct probed *: the files in the order of the search, then what is known and has none. `only`: those of
 * these names, with NULL behind the last; if there is none, all. Returns an exit code, after having said what is wrong. */
int probe_plugins(char *const *only, GPtrArray **ret_plugins);

/* Says on stderr, for `verb`, whose library is missing among the plugins that a backend's words name, and
 * returns false; NULL stands for TUTTI_BACKEND. What else is wrong with them is the library's to say. */
bool probe_backend(const char *verb, const char *words);

/* Calls run(fd, user) in a child process whose stdout is stderr, and returns what it has written to fd in 10 s, 64 KiB
 * at most; NULL: there is no process. `ret_why`: why the answer may be missing; NULL: the child has ended well. */
typedef void probe_child(int fd, const void *user);
GByteArray *probe_in_child(probe_child *run, const void *user, char **ret_why);
/* For the child: writes it all, or ends. */
void probe_write(int fd, const void *data, size_t bytes);

/* Probes the file at `path`: its facts, or why it was refused; its name is the file's. */
struct probed *probe_file(const char *path);
/* `user` is a struct probed, or NULL. */
void probed_free(gpointer user);
