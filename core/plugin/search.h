/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where plugins are looked for, and which are there. The directories, in order: those of
 * TUTTI_PLUGIN_PATH (ignored in set-id programs), `tutti/0` beside libtutti's own file (which is where
 * both a build tree and a relocated installation have them), and the directory that this build
 * installs plugins to.
 */
#pragma once

#include <stdbool.h>

#include "base/strings.h"
#include "plugin/plugin.h"

/* Adds the directories, each once; they need not exist. */
void search_directories(struct strings *directories);

/* Adds the paths of all files libtutti-NAME.so in `directories`, in their order, sorted within each. */
void search_files(const struct strings *directories, struct strings *files);

/* NAME of a path ".../libtutti-NAME.so"; false, and "", when it is called otherwise. */
bool search_name_of(const char *path, char ret_name[PLUGIN_NAME_MAX + 1]);

/* Neither a file in `directories` nor a registered plugin has the name: INVALID_ARGUMENT, with the names
 * that are there, and NO_MEMORY. `what` the name was given for: "backend", "wrapper". */
tutti_status search_not_found(const char *what, const char *name,
                              const struct strings *directories);

/* INVALID_ARGUMENT if the plugin, which was asked for as a backend, is a wrapper. */
tutti_status search_check_backend(const tutti_plugin *plugin, const char *name);
