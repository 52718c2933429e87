/* SPDX-License-Identifier: Apache-2.0 */
/* What UCC says of itself: its version and file, and what in it would do a collective. */
#pragma once

#include <tutti/plugin_engine.h>

/* Of ucc.c. */
extern const tutti_collectives_ops ucc_collectives;

/* tutti_collectives_ops.describe */
void scores_describe(const tutti_host *host, void *host_self, const tutti_collective *what,
                     char *ret_words, uint64_t capacity);
