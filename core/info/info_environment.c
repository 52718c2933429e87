/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_environment_list(): every variable of environment.h with its value, source and problem, then the
 * TUTTI_ variables that nothing reads. It judges values by the same functions as tutti_init(), so the two
 * never disagree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/info.h>

#include "base/environment.h"
#include "base/error.h"
#include "plugin/plugin.h"

struct listing {
    tutti_variable_fn fn;
    void *user;
    struct environment_wrappers wrappers;
    char plugins[1024];
};

static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static const char *text_of_agreement(enum environment_agreement agreement)
{
    return agreement == ENV_COMPARED  ? "same, compared at init"
           : agreement == ENV_TO_MEET ? "same on all ranks"
                                      : "may differ";
}

/* A secret is in no output: a name with that word may be a misspelt one of ours. */
static const char *shown(const char *name, const char *value)
{
    const bool is_secret = strstr(name, "SECRET") && strcmp(name, "TUTTI_SECRET_FILE") != 0;

    return is_secret && *value ? "(set; not shown)" : value;
}

static void list_row(const struct listing *listing, const struct environment_variable *row)
{
    char problem[ENVIRONMENT_MESSAGE_MAX];
    const char *value = value_of(row->name), *source = value ? "environment" : "default";

    if (!value && !strcmp(row->name, "TUTTI_RUN_ID")) {
        source = "TORCHELASTIC_RUN_ID";
        value = value_of(source);
        source = value ? source : "default";
    }
    environment_problem(row, value ? value : "", problem, sizeof problem);
    const bool refused = *problem;
    if (!refused)
        environment_idle(row, value ? value : "", &listing->wrappers, listing->plugins, problem,
                         sizeof problem);
    listing->fn(&(tutti_variable_info){.name = row->name,
                                       .value = shown(row->name, value ? value : row->standard),
                                       .source = source,
                                       .standard = row->standard,
                                       .values = row->values,
                                       .across = text_of_agreement(row->agreement),
                                       .meaning = row->meaning,
                                       .problem = problem,
                                       .own = row->own,
                                       .idle = !refused && *problem},
                listing->user);
}

static void list_stranger(const char *name, const char *message, void *user)
{
    const struct listing *listing = user;
    const char *value = value_of(name);

    listing->fn(&(tutti_variable_info){.name = name,
                                       .value = shown(name, value ? value : ""),
                                       .source = "environment",
                                       .standard = "",
                                       .values = "",
                                       .across = "may differ",
                                       .meaning = "",
                                       .problem = message,
                                       .own = 1},
                listing->user);
}

/* The variables that are set of rows that stand for many. */
static void list_families(const struct listing *listing)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        const struct environment_variable *row = environment_find_family(*entry);

        if (!row)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        struct environment_variable one = *row;
        one.name = name;
        if (value_of(name))
            list_row(listing, &one);
    }
}

tutti_status tutti_environment_list(tutti_variable_fn fn, void *user)
{
    struct listing listing = {.fn = fn, .user = user, .wrappers = environment_wrappers(NULL)};
    const struct environment_variable *row;

    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    plugin_known_names(listing.plugins, sizeof listing.plugins);
    for (size_t i = 0; (row = environment_row(i)); i++)
        list_row(&listing, row);
    list_families(&listing);
    environment_strangers(listing.plugins, NULL, list_stranger, &listing);
    return TUTTI_OK;
}
