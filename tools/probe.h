/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens each plugin's file in a child process of its own: loading runs the plugin's code, which may
 * crash, hang, print, or not get on with the engine of the plugin before it.
 */
#ifndef TUTTI_TOOLS_PROBE_H
#define TUTTI_TOOLS_PROBE_H

#include <glib.h>

struct probed {
    char *name, *path, *version, *license;
    char *reason; /* "" when ready */
    char *provides;
    unsigned abi_major, abi_minor;
    gboolean ready;
};

/* An array of struct probed *, in the order of the search; NULL after having said what is wrong. */
GPtrArray *probe_plugins(void);

/* What the one at `path` is, or why it was refused; its name is the file's. */
struct probed *probe_file(const char *path);
void probed_free(gpointer probed); /* NULL is fine */

#endif
