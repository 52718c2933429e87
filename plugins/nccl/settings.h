/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's own variables of the environment, as far as members have to have them alike. */
#pragma once

#include "../common/caller.h"

enum { SETTINGS_MAX = 24, SETTING_BYTES = 96 };

/* What a member has in each; "": it is not set. A longer value is cut. */
struct settings {
    char values[SETTINGS_MAX][SETTING_BYTES];
};

/* A variable of NCCL's, of the environment or else of a file nccl.conf; "": it is not set. Set-id programs have none. The
 * library is open. */
const char *setting(const char *variable);

void settings_read(struct settings *ret_settings);

/* MISMATCH, with both values, where they differ. */
tutti_status settings_compare(const struct caller *caller, int rank,
                              const struct settings *settings, int other_rank,
                              const struct settings *others);
