/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <tutti/status.h>

#include "base/environment.h"

/* Warns of names that nothing reads, of options of wrappers that neither `wrap`, tutti_init_options.wrap,
 * nor else TUTTI_WRAP names, and of folders that are not there, once in a process; refuses a value that
 * makes no sense. */
tutti_status settings_check(const char *wrap);

/* After how long a call that waits is warned of (TUTTI_STALL_WARNING); INT64_MAX: never. */
int64_t settings_stall_warning_ns(void);

/* MISMATCH with both sides' values where `other`, of member `rank`, differs from `first`, of rank 0.
 * Both come from an offer. `partly`: only as far as both go, since a member without a plugin does not
 * know that plugin's settings, which come last. */
tutti_status settings_compare(const char *group, const char *first, int rank, const char *other,
                              bool partly);
