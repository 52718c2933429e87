/* SPDX-License-Identifier: Apache-2.0 */
/* Those who hear the log lines of an engine's library: the hosts of what is open over it. */
#pragma once

#include <stdbool.h>

#include "caller.h"

/* From now on lines go to this caller's host, until listeners_leave(); of several callers, to the oldest. NO_MEMORY. */
tutti_status listeners_join(const struct caller *caller);
/* Once for each listeners_join(). No line comes after it has returned. */
void listeners_leave(const struct caller *caller);
/* As tutti_host.log has levels. False: nobody listens. */
bool listeners_tell(int32_t level, const char *words);
