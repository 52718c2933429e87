/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings at tutti_init(): this process's are checked, and those that change what is exchanged are
 * compared with the other members'. Every other setting may differ.
 */
#include "agreement/settings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "plugin/backend.h"
#include "plugin/plugin.h"

static void warn(const char *name, const char *message, void *user)
{
    (void)name;
    (void)user;
    log_line(LOG_WARN, -1, "%s", message);
}

static bool is_directory(const char *path)
{
    struct stat info;

    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

/* A folder of plugins that is not there is passed over, in which a misspelt one would not be noticed. */
static void warn_of_plugin_path(void)
{
    const char *at = secure_getenv("TUTTI_PLUGIN_PATH");

    while (at && *at) {
        const size_t length = strcspn(at, ":");
        AUTOFREE char *path = strndup(at, length);

        if (path && *path && !is_directory(path))
            log_line(LOG_WARN, -1, "TUTTI_PLUGIN_PATH: %s is not a directory; it is skipped", path);
        at += length + (at[length] == ':');
    }
}

/* The folder is made when a dump is written, but not its parents. */
static void warn_of_dump_folder(void)
{
    const char *path = secure_getenv("TUTTI_DUMP_DIR");

    if (!path || !*path)
        return;
    if (!access(path, F_OK)) {
        if (!is_directory(path) || access(path, W_OK | X_OK))
            log_line(LOG_WARN, -1,
                     "TUTTI_DUMP_DIR=%s is not a directory that this process can write to; it will "
                     "make no dumps",
                     path);
        return;
    }
    const char *last = strrchr(path, '/');
    AUTOFREE char *parent =
        last && last > path && last[1] ? strndup(path, (size_t)(last - path)) : NULL;
    if (parent && !is_directory(parent))
        log_line(
            LOG_WARN, -1,
            "TUTTI_DUMP_DIR=%s: %s is not a directory; create it first, or no dumps will be made",
            path, parent);
}

/* Warns of variables that nothing will use: the user who set them believes that something does. */
static void warn_of_idle(const struct environment_wrappers *wrappers, const char *plugins)
{
    char message[ENVIRONMENT_MESSAGE_MAX];
    const struct environment_variable *row;

    for (size_t i = 0; (row = environment_row(i)); i++) {
        const char *value = getenv(row->name);

        environment_idle(row, value ? value : "", wrappers, plugins, message, sizeof message);
        if (*message)
            log_line(LOG_WARN, -1, "%s", message);
    }
}

static void warn_once(const struct environment_wrappers *wrappers)
{
    const char *local = getenv("LOCAL_RANK");
    char plugins[1024];
    int64_t rank;

    if (!environment_warns_here())
        return;
    if (local && *local && !text_number(local, 0, 0, &rank))
        log_line(LOG_WARN, -1,
                 "LOCAL_RANK=%.*s is not a rank, so every process prints the warnings",
                 TEXT_CUT(local, 40));
    plugin_known_names(plugins, sizeof plugins);
    environment_strangers(plugins, NULL, warn, NULL);
    warn_of_plugin_path();
    warn_of_dump_folder();
    warn_of_idle(wrappers, plugins);
}

/* Values with a grammar of their own. They are looked at also where an option comes before them, as all
 * others are. */
static tutti_status check_grammars(void)
{
    const char *backend = getenv("TUTTI_BACKEND"), *store = getenv("TUTTI_STORE");
    struct backend_choice choice;
    struct url url;
    tutti_status status = TUTTI_OK;

    if (backend && *backend)
        status = backend_parse("TUTTI_BACKEND", backend, &choice);
    if (!status && store && *store)
        status = identity_store(store, &url);
    return status;
}

tutti_status settings_check(const char *wrap)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct environment_wrappers wrappers = environment_wrappers(wrap);

    if (!atomic_flag_test_and_set(&warned))
        warn_once(&wrappers);
    tutti_status status = environment_check(NULL);
    return status ? status : check_grammars();
}

tutti_status settings_compare(const char *group, const char *first, int rank, const char *other,
                              bool partly)
{
    while ((*first || *other) && !(partly && (!*first || !*other))) {
        const int n = (int)strcspn(first, "\n"), m = (int)strcspn(other, "\n");

        if (n != m || memcmp(first, other, (size_t)n)) {
            const int name = (int)strcspn(first, "=\n"), equal = n > name;
            const int same_name = !strncmp(first, other, (size_t)name + (size_t)equal);

            if (equal && same_name)
                return error_set(TUTTI_ERR_MISMATCH,
                                 "group %s: members disagree about %.*s: rank 0: «%.*s»; rank %d: "
                                 "«%.*s»; it must be the same on all",
                                 group, name, first, n - name - 1, first + name + 1, rank,
                                 m - name - 1, other + name + 1);
            return error_set(TUTTI_ERR_MISMATCH,
                             "group %s: members have different settings: rank 0: «%.*s»; rank %d: "
                             "«%.*s»; set the same on all",
                             group, n, first, rank, m, other);
        }
        first += n + (first[n] == '\n');
        other += m + (other[m] == '\n');
    }
    return TUTTI_OK;
}

int64_t settings_stall_warning_ns(void)
{
    static const char name[] = "TUTTI_STALL_WARNING";
    const char *value = getenv(name);
    int64_t seconds = 0;

    if (!value || !text_number(value, 0, ENVIRONMENT_SECONDS_MAX, &seconds))
        (void)text_number(environment_find(name)->standard, 0, ENVIRONMENT_SECONDS_MAX, &seconds);
    return seconds ? seconds * CLOCK_NS_PER_S : INT64_MAX;
}
