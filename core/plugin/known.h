/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins that tutti knows by name, whether they are here or not: what each is for, what it needs and
 * how to get it. This table is the only such list: errors, tutti_plugins_known() and `tutti info` read it.
 */
#ifndef TUTTI_PLUGIN_KNOWN_H
#define TUTTI_PLUGIN_KNOWN_H

#include <tutti/info.h>

/* Ends with a row without a name. */
extern const tutti_known_plugin known_plugins[];

/* NULL: a name that tutti does not know. */
const tutti_known_plugin *known_plugin(const char *name);

#endif
