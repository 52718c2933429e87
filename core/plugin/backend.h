/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TUTTI_BACKEND, or backend= of the options, asks for:
 *
 *     auto                       the best for each level, fallback allowed
 *     NAME                       this backend for everything
 *     local=NAME,remote=NAME     one inside each host, one between hosts (in either order)
 */
#ifndef TUTTI_PLUGIN_BACKEND_H
#define TUTTI_PLUGIN_BACKEND_H

#include <stdbool.h>

#include <tutti/status.h>

#include "plugin/plugin.h"

struct backend_choice {
    bool is_auto; /* the names are empty then */
    char local[PLUGIN_NAME_MAX + 1];
    char remote[PLUGIN_NAME_MAX + 1]; /* equal to `local` when one name was given */
};

/* Parses `words`; `source` ("TUTTI_BACKEND") begins the error's words. Looks no plugin up. */
tutti_status backend_parse(const char *source, const char *words,
                           struct backend_choice *ret_choice);

/* `option` (backend= of the options), else TUTTI_BACKEND when it is set and not empty, else auto.
 */
tutti_status backend_resolve(const char *option, struct backend_choice *ret_choice);

/* Whether the plugin, which is there, does whole operations and carries no messages: shm and tcp
 * do that for it. */
bool backend_is_engine(const char *name);

/* Whose plugins are needed: for messages inside hosts and between them, and such an engine; "" where
 * there is none. */
void backend_candidates(const struct backend_choice *choice, const char *ret_names[3]);

#endif
