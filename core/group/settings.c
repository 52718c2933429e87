/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings at tutti_init(): this process's are checked, and those that change what is exchanged are
 * compared with the other members'. Every other setting may differ.
 */
#include "group/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/version.h>

#include "base/error.h"
#include "base/log.h"
#include "plugin/plugin.h"

static void warn(const char *name, const char *words, void *user)
{
    (void)name;
    (void)user;
    log_line(LOG_WARN, -1, "%s", words);
}

/* Ranks of one host have one environment from their launcher: its first one warns for all. */
static void warn_of_strangers(void)
{
    const char *local = getenv("LOCAL_RANK");
    char plugins[1024];

    if (local && *local && strcmp(local, "0"))
        return;
    plugin_known_names(plugins, sizeof plugins);
    environment_strangers(plugins, warn, NULL);
}

tutti_status settings_check(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, warn_of_strangers);
    return environment_check();
}

void settings_describe(char ret_settings[ENVIRONMENT_SETTINGS_MAX])
{
    char variables[ENVIRONMENT_SETTINGS_MAX];

    environment_settings(variables);
    snprintf(ret_settings, ENVIRONMENT_SETTINGS_MAX, "the version of libtutti=%s\n%.900s",
             tutti_version(), variables);
}

tutti_status settings_compare(const char *group, const char *first, int rank, const char *other)
{
    while (*first || *other) {
        const int n = (int)strcspn(first, "\n"), m = (int)strcspn(other, "\n");

        if (n != m || memcmp(first, other, (size_t)n)) {
            const int name = (int)strcspn(first, "=\n"), equal = n > name;
            const int same_name = !strncmp(first, other, (size_t)(name + equal));

            if (equal && same_name)
                return error_set(TUTTI_ERR_MISMATCH,
                                 "group %s: members disagree about %.*s: rank 0: «%.*s»; rank %d: "
                                 "«%.*s»; it must be the same on all",
                                 group, name, first, n - name - 1, first + name + 1, rank,
                                 m - name - 1, other + name + 1);
            return error_set(TUTTI_ERR_MISMATCH,
                             "group %s: members have different settings: rank 0: «%.*s»; rank %d: "
                             "«%.*s»; run the same version of tutti on all",
                             group, n, first, rank, m, other);
        }
        first += n + (first[n] == '\n');
        other += m + (other[m] == '\n');
    }
    return TUTTI_OK;
}
