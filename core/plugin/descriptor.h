/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a descriptor that a plugin exports is complete and of an ABI that this library speaks. */
#pragma once

#include <stdbool.h>

#include <tutti/plugin.h>

/* Whether `name` may be a backend's name; see PLUGIN_NAME_MAX. "auto" may not. */
bool descriptor_name_is_valid(const char *name);

/* Refuses another major, with both numbers. `major` is the note's or the descriptor's. */
tutti_status descriptor_check_major(uint32_t major);

/* Whether a transport's operations are complete and make sense; `name` is the provider's. */
tutti_status descriptor_check_transport(const char *name, const tutti_transport_ops *ops);

/* `name`: what the file is called, NULL: the descriptor's own name decides. Errors do not name the
 * file. */
tutti_status descriptor_check(const tutti_plugin *plugin, const char *name);
