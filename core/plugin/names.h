/* SPDX-License-Identifier: Apache-2.0 */
/* The known names, and the error for an unknown one. */
#pragma once

#include "base/strings.h"
#include "plugin/plugin.h"

/* Neither a file in `directories` nor a registered plugin has the name: INVALID_ARGUMENT, with the names
 * that are there, and NO_MEMORY. `what` the name was given for: "backend", "wrapper". */
tutti_status names_not_found(const char *what, const char *name, const struct strings *directories);

/* INVALID_ARGUMENT if the plugin, which was asked for as a backend, is a wrapper. */
tutti_status names_check_backend(const tutti_plugin *plugin, const char *name);
