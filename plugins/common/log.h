/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of UCX, and of libraries that log as it does, go to tutti's log instead of stdout. */
#pragma once

#include "caller.h"

enum { LOG_HEARD_BYTES = 400 };

/* ucs_log_level_t and ucs_log_func_rc_t, as far as they are used; context.c compares them with UCX's header. */
enum { LOG_LEVEL_WARN = 2, LOG_LEVEL_INFO = 4 };
enum { LOG_STOP = 0, LOG_CONTINUE = 1 };

/* Takes the lines over from a library, by the functions of its that push a handler; NULL ends the list, and some may be
 * missing. Only the first call of the process does anything. */
void log_take_over(void *library, const char *const *push_functions);

/* Collects this thread's lines from warnings up in `words` instead, until log_listen(NULL). They are put behind
 * each other, separated by "; ", as far as there is room. */
void log_listen(char words[LOG_HEARD_BYTES]);
