/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUTTI_GROUP_SETTINGS_H
#define TUTTI_GROUP_SETTINGS_H

#include <tutti/status.h>

#include "base/environment.h"

/* Warns of names that nothing reads, of options of wrappers that neither `wrap`, tutti_init_options.wrap,
 * nor else TUTTI_WRAP names, and of folders that are not there, once in a process; refuses a value that
 * makes no sense. */
tutti_status settings_check(const char *wrap);

/* MISMATCH with both sides' values where `other`, of member `rank`, differs from `first`, of rank 0.
 * Both come from an offer. */
tutti_status settings_compare(const char *group, const char *first, int rank, const char *other);

#endif
