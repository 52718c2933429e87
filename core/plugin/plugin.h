/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins: from a backend's name to the descriptor that its file exports.
 *
 * Backend NAME is what tutti_plugin_register() was given, else libtutti-NAME.so in the first directory of
 * search.h that has it. Only that file is opened, and only when its path is trusted (trust.h), its ELF note
 * says this ABI's major (note.h), and its descriptor is complete.
 * A file that is there and refused is an error, not a reason to look further.
 *
 * A loaded plugin stays loaded; descriptors are valid as long as the process. Any thread.
 */
#pragma once

#include <stddef.h>

#include <tutti/plugin_engine.h>
#include <tutti/status.h>

#include "base/text.h"

enum { PLUGIN_NAME_MAX = TEXT_NAME_MAX }; /* bytes */

/*
 * The plugin of backend `name`. INVALID_ARGUMENT: no such backend (with what to do where
 * tutti knows the name, else with the directories searched and the names that are there); DENIED: its file is not trusted; PLUGIN: its file is broken or too
 * new.
 */
tutti_status plugin_find(const char *name, const tutti_plugin **ret_plugin);

/* As plugin_find() for wrapper `name`: the message of a failure says so. */
tutti_status plugin_find_wrapper(const char *name, const tutti_plugin **ret_plugin);

/* As plugin_find() for a plugin that drives devices. */
tutti_status plugin_find_device(const char *name, const tutti_plugin **ret_plugin);

/* As plugin_find(), of a file that the caller names, whose name tells that of the backend. */
tutti_status plugin_open(const char *path, const tutti_plugin **ret_plugin);

/* The plugin's first provider of that kind, NULL: none. */
const tutti_provider *plugin_provider(const tutti_plugin *plugin, enum tutti_provider_kind kind);

/* The operations of that provider; NULL: none. */
const void *plugin_ops(const tutti_plugin *plugin, enum tutti_provider_kind kind);
static inline const tutti_transport_ops *plugin_transport(const tutti_plugin *plugin)
{
    return plugin_ops(plugin, TUTTI_PROVIDER_TRANSPORT);
}
static inline const tutti_collectives_ops *plugin_collectives(const tutti_plugin *plugin)
{
    return plugin_ops(plugin, TUTTI_PROVIDER_COLLECTIVES);
}

enum { PLUGIN_PROVIDES_MAX = 64 };

/* The kinds of the plugin's providers as text: "transport", "wrapper", "collectives, bootstrap". */
void plugin_provides(const tutti_plugin *plugin, char ret_words[PLUGIN_PROVIDES_MAX]);

/* The same of a file that is not opened, by its name; "" where known.h has no such name. */
const char *plugin_usually_provides(const char *name);

/* ---- leave.c ---- */

/* The plugin's provider of that kind has opened something, which may have started its engine: the plugin
 * will hear that the process exits before exit handlers run that the engine has registered by now. */
void plugin_started(const tutti_plugin *plugin, enum tutti_provider_kind kind);
/* This process begins to make a group of several members; it has destroyed one without an error. */
void plugins_group_begins(void);
void plugins_group_ended_well(void);
/* The process exits: tells each plugin that was loaded in it and has not been told, the last one first, and
 * whether every group that was begun has ended well. */
void plugins_leave(void);

/* ---- search.c ---- */

/* The names of the plugins that are there, sorted, "shm, tcp"; cut at `size`. "none" when none. */
void plugin_known_names(char *ret_names, size_t size);
