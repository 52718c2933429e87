/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of about.h that are compared. Where they differ NCCL's kernels wait for ever, or a message is "receiving
 * 524288 bytes instead of 65536".
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "about.h"
#include "conf.h"

#define IF_ENV_COMPARED(variable) variable,
#define IF_ENV_TO_MEET(variable)
#define IF_ENV_MAY_DIFFER(variable)
#define COMPARED(plugin, variable, values, across, meaning) IF_##across(variable)
static const char *const names[] = {NCCL_VARIABLES(COMPARED)};

enum { NAMES = sizeof names / sizeof names[0] };

_Static_assert((int)NAMES == (int)SETTINGS_MAX, "each has a place");

const char *setting(const char *variable)
{
    const char *value = secure_getenv(variable);

    value = value ? value : conf_value(variable);
    return value ? value : "";
}

void settings_read(struct settings *ret_settings)
{
    for (int i = 0; i < NAMES; i++)
        (void)snprintf(ret_settings->values[i], SETTING_BYTES, "%s", setting(names[i]));
}

/* "NCCL_ALGO=Ring", or "no NCCL_ALGO". */
static void describe(const char *name, const char *value, char *ret_words, size_t size)
{
    (void)snprintf(ret_words, size, "%s%s%s%.*s", *value ? "" : "no ", name, *value ? "=" : "",
                   SETTING_BYTES, value);
}

tutti_status settings_compare(const struct caller *caller, int rank,
                              const struct settings *settings, int other_rank,
                              const struct settings *others)
{
    for (int i = 0; i < NAMES; i++) {
        const char *one = settings->values[i], *other = others->values[i];
        char has[160], other_has[160];

        if (!strncmp(one, other, SETTING_BYTES))
            continue;
        describe(names[i], one, has, sizeof has);
        describe(names[i], other, other_has, sizeof other_has);
        return fail(caller, TUTTI_ERR_MISMATCH, 0,
                    "rank %d has %s and rank %d has %s, and NCCL hangs or fails where members "
                    "differ: set it "
                    "alike on all ranks, or on none",
                    rank, has, other_rank, other_has);
    }
    return TUTTI_OK;
}
