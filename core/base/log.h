/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libtutti says on stderr: one write(2) a line, "tutti[rank] level: message". TUTTI_DEBUG picks
 * OFF, WARN (the default), INFO or DETAIL. Never called on the way of a call that succeeds.
 */
#pragma once

#include <stdbool.h>

enum log_level { LOG_OFF, LOG_WARN, LOG_INFO, LOG_DETAIL };

bool log_enabled(enum log_level level);
void log_line(enum log_level level, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
