/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that NCCL prints go to tutti's log instead of stdout. */
#pragma once

#include <stdbool.h>

#include "../common/caller.h"

/* The file that NCCL has to print to, for NCCL_DEBUG_FILE; NULL: there is none. `prints_without_teams`: lines that
 * nobody hears go to stdout. */
const char *lines_file(bool prints_without_teams);

/* From now on lines go to this caller's host, until lines_leave(). NO_MEMORY. */
tutti_status lines_join(const struct caller *caller);
/* Once for each lines_join(). What NCCL has printed before is told; no line comes after it has returned. */
void lines_leave(const struct caller *caller);
