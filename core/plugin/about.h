/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a plugin's descriptor besides its providers, with the defaults of those that are
 * missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tutti/plugin_engine.h>
#include <tutti/status.h>

#include "base/text.h"

/* The cost of the transport's messages; that of TCP if the plugin has no transport. Static, or the
 * plugin's. */
const tutti_cost *plugin_cost(const tutti_plugin *plugin);
/* The same of a transport that does not say it, from its TUTTI_CAP_…. */
const tutti_cost *plugin_usual_cost(uint64_t capabilities);

/* The variables that reveal a launcher, and the plugin that can ask it. */
struct plugin_launcher {
    const char *variable, *launcher, *plugin;
};
/* Number `i` of those of tutti's own plugins, and then of those that are open; false: there is none. */
bool plugin_launcher(size_t i, struct plugin_launcher *ret_launcher);

/* environment_check() of a plugin that is open. The first time, warns of variables with its name that it does
 * not list, if it lists any. */
tutti_status plugin_check_options(const char *name);

/* The library that the plugin drives, as its collectives or its transport say; `ret_version` is zero if it does
 * not say. A failure has a message. May load the library. */
tutti_status plugin_engine(const tutti_plugin *plugin, tutti_engine_version *ret_version);

/* Whether `auto` may use it between hosts on this one: tutti_transport_ops.fabric. May load the library. */
bool plugin_has_fabric(const tutti_plugin *plugin);

/* The settings of a plugin in use that must be the same on all members: options, and a cost other
 * than the default, each "NAME=VALUE\n". None for tutti's own plugins. */
void plugin_settings(const tutti_plugin *plugin, struct text *settings);
