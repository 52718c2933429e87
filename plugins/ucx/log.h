/* SPDX-License-Identifier: Apache-2.0 */
/* UCX's log lines go to tutti's log instead of stdout. */
#pragma once

#include "library.h"

enum { LOG_HEARD_BYTES = 400 };

/* From now on lines go to this endpoint's host, until log_leave(); of several endpoints, to the oldest. NO_MEMORY. */
tutti_status log_join(const struct caller *caller, const struct ucx_library *library);
/* Once for each log_join(). */
void log_leave(const struct caller *caller);

/* Collects this thread's lines from warnings up in `words` instead, until log_listen(NULL). They are put behind
 * each other, separated by "; ", as far as there is room. */
void log_listen(char words[LOG_HEARD_BYTES]);
