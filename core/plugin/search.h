/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where plugins are looked for. The directories, in order: those of TUTTI_PLUGIN_PATH (ignored in
 * set-id programs), `tutti/0` beside libtutti's own file (which is where both a build tree and a
 * relocated installation have them), and the directory that this build installs plugins to.
 */
#ifndef TUTTI_PLUGIN_SEARCH_H
#define TUTTI_PLUGIN_SEARCH_H

#include <glib.h>

/* The directories as strings, each once; they need not exist. */
GPtrArray *search_directories(void);

/* The paths of all files libtutti-NAME.so in `directories`, in their order, sorted within each. */
GPtrArray *search_files(const GPtrArray *directories);

/* NAME of a path ".../libtutti-NAME.so", NULL when it is called otherwise. */
char *search_name_of(const char *path);

#endif
