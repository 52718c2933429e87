/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's settings by tutti's variables.
 *
 * ucp_config_modify() checks the value of a setting of UCP or of the whole library. Up to some version any
 * other name is kept, for the settings of transports, and a name that none of them has is left out with a
 * warning when the first worker is made. So names are compared with the list that UCX prints, and values of
 * transports' settings are tried on copies of those. Before 1.17 UCX looks for such a setting under a name
 * that several transports have, so these are refused: UCX's own variable works.
 */
#include "options.h"

#include "../common/log.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "TUTTI_UCX_"
#define UCX_PREFIX "UCX_"

enum {
    NEAREST_MAX = 3,
    FAR = 1000,
    MINOR_WITH_TRANSPORTS =
        17 /* of the first UCX that finds transports' settings by their full names */
};

static bool has_small_letter(const char *name)
{
    while (*name && !islower((unsigned char)*name))
        name++;
    return *name;
}

/* Nothing is looked up under such a name, and nothing would tell that. */
static tutti_status refuse_small_letters(const struct caller *caller, const char *name)
{
    return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                PREFIX "%s is no setting of UCX: use capital letters, as in TUTTI_UCX_TLS", name);
}

tutti_status options_read(const struct caller *caller, struct ucx_options *ret_options)
{
    struct ucx_options options = {.count = 0};

    for (char **at = environ; at && *at; at++) {
        const char *name = *at + strlen(PREFIX);
        const size_t length = strncmp(*at, PREFIX, strlen(PREFIX)) ? 0 : strcspn(name, "=");
        struct ucx_option *option = &options.list[options.count];

        if (!length)
            continue;
        if (options.count == OPTIONS_MAX || length > OPTION_NAME_MAX)
            return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                        PREFIX
                        "%.64s: at most %d of these variables, with names of %d bytes after " PREFIX
                        ", are possible",
                        name, OPTIONS_MAX, OPTION_NAME_MAX);
        *option = (struct ucx_option){.tried = false};
        memcpy(option->name, name, length);
        if (has_small_letter(option->name))
            return refuse_small_letters(caller, option->name);
        option->value = caller->host->config(caller->self, option->name);
        if (option->value && *option->value)
            options.count++;
    }
    *ret_options = options;
    return TUTTI_OK;
}

size_t options_settings(const struct ucx_options *options, char *ret_settings, size_t capacity)
{
    size_t used = 0;

    for (size_t i = 0; i < options->count; i++)
        used += (size_t)snprintf(ret_settings ? ret_settings + used : NULL,
                                 used < capacity ? capacity - used : 0, "%s=%s\n",
                                 options->list[i].name, options->list[i].value);
    return used;
}

static tutti_status refuse_value(const struct caller *caller, const struct ucx_option *option,
                                 const char *reason)
{
    return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                PREFIX "%s=%.100s is not valid%s%.400s; `ucx_info -cf` lists UCX's settings with "
                       "their values",
                option->name, option->value, *reason ? ": " : "", reason);
}

tutti_status options_apply(const struct caller *caller, const struct ucx_library *library,
                           const struct ucx_options *options, ucp_config_t *config)
{
    char heard[LOG_HEARD_BYTES];
    ucs_status_t status = UCS_OK;
    size_t i;

    log_listen(heard);
    for (i = 0; i < options->count && !status; i++)
        status = library->ucp_config_modify(config, options->list[i].name, options->list[i].value);
    log_listen(NULL);
    return status ? refuse_value(caller, &options->list[i - 1], heard) : TUTTI_OK;
}

void options_try(struct ucx_options *options, const struct ucx_library *library, void *config)
{
    char heard[LOG_HEARD_BYTES];

    log_listen(heard);
    for (size_t i = 0; i < options->count; i++) {
        struct ucx_option *option = &options->list[i];
        const ucs_status_t status = library->uct_config_modify(config, option->name, option->value);

        option->tried = option->tried || status != UCS_ERR_NO_ELEM;
        option->taken = option->taken || status == UCS_OK;
    }
    log_listen(NULL);
}

/* ---- names ---- */

/* A copy of all that UCX prints of its settings, with titles, for the caller to free; NULL: it cannot. */
static char *print_all(const struct ucx_library *library, const ucp_config_t *config)
{
    /* Without the last argument up to UCX 1.19 or so, which does not look at it. */
    void (*print)(FILE * stream, const char *prefix, ucs_config_print_flags_t flags, void *tables,
                  const char *filter);
    void *address = dlsym(library->handle, "ucs_config_parser_print_all_opts");
    void *tables = dlsym(library->handle, "ucs_config_global_list");
    const ucs_config_print_flags_t flags =
        UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HEADER | UCS_CONFIG_PRINT_HIDDEN;
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    if (!stream)
        return NULL;
    if (address && tables) {
        memcpy(&print, &address, sizeof print);
        print(stream, UCX_PREFIX, flags, tables, NULL);
    } else {
        library->ucp_config_print(config, stream, "", flags);
    }
    if (fclose(stream)) {
        free(text);
        return NULL;
    }
    return text;
}

/* How many letters differ, at most FAR. */
static int distance(const char *a, const char *b)
{
    int row[OPTION_NAME_MAX + 2];
    const int length = (int)strlen(b);

    if (length > OPTION_NAME_MAX)
        return FAR;
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];

        row[0] = i;
        for (int j = 1; j <= length; j++) {
            const int replaced = corner + (toupper((unsigned char)a[i - 1]) != b[j - 1]);
            const int shorter = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            corner = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[length];
}

/* The names that are nearest to one, the nearest first. */
struct nearest {
    char names[NEAREST_MAX][OPTION_NAME_MAX + 1];
    int far[NEAREST_MAX];
};

static void keep_nearest(struct nearest *nearest, const char *wanted, const char *name)
{
    const int far = distance(wanted, name);
    int place = NEAREST_MAX;

    for (int i = 0; i < NEAREST_MAX; i++)
        if (!strcmp(nearest->names[i], name))
            return;
    while (place && far < nearest->far[place - 1])
        place--;
    if (place == NEAREST_MAX)
        return;
    for (int i = NEAREST_MAX - 1; i > place; i--) {
        memcpy(nearest->names[i], nearest->names[i - 1], sizeof nearest->names[i]);
        nearest->far[i] = nearest->far[i - 1];
    }
    snprintf(nearest->names[place], sizeof nearest->names[place], "%s", name);
    nearest->far[place] = far;
}

enum found { NOWHERE, WHILE_LOADING, OF_TRANSPORT, ANY_TIME };

/* UCX has read some when it was loaded, for the whole process; and these before there is a context. */
static enum found kind_of(const char *title, const char *name)
{
    static const char *const early[] = {"HANDLE_ERRORS", "DEBUG_SIGNO", "MODULES", "MODULE_DIR"};

    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++)
        if (!strcmp(name, early[i]))
            return WHILE_LOADING;
    if (strstr(title, "read-only") || !strncmp(title, "UCM ", 4))
        return WHILE_LOADING;
    return strstr(title, "transport conf") || strstr(title, "memory domain conf") ||
                   strstr(title, "connection manager conf")
               ? OF_TRANSPORT
               : ANY_TIME;
}

/* Looks for the name in what print_all() has returned: "# TITLE" and "UCX_NAME=VALUE" in lines. */
static enum found find_name(const char *all, const char *wanted, struct nearest *nearest)
{
    char title[100] = "", name[OPTION_NAME_MAX + 1];

    for (const char *line = all; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (!strncmp(line, "# ", 2))
            snprintf(title, sizeof title, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        if (strncmp(line, UCX_PREFIX, strlen(UCX_PREFIX)) != 0)
            continue;
        line += strlen(UCX_PREFIX);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "=\n"), line);
        if (!strcmp(name, wanted))
            return kind_of(title, name);
        keep_nearest(nearest, wanted, name);
    }
    return NOWHERE;
}

bool options_name_transports(const struct ucx_library *library)
{
    return library->major > 1 || library->minor >= MINOR_WITH_TRANSPORTS;
}

static tutti_status check_name(const struct caller *caller, const struct ucx_library *library,
                               const char *all, const struct ucx_option *option)
{
    struct nearest nearest = {.far = {FAR, FAR, FAR}};

    switch (find_name(all, option->name, &nearest)) {
    case ANY_TIME:
        return TUTTI_OK;
    case OF_TRANSPORT:
        if (options_name_transports(library))
            return TUTTI_OK;
        return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    PREFIX "%s has no effect, since UCX %s takes this setting of a transport from "
                           "its own variable only: set UCX_%s instead",
                    option->name, library->version, option->name);
    case WHILE_LOADING:
        return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    PREFIX "%s has no effect, since UCX reads this setting for the whole process "
                           "while it is loaded: set UCX_%s instead",
                    option->name, option->name);
    default:
        return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    PREFIX "%s: UCX %s has no setting UCX_%s; the nearest are %s, %s and %s",
                    option->name, library->version, option->name, nearest.names[0],
                    nearest.names[1], nearest.names[2]);
    }
}

tutti_status options_check(const struct caller *caller, const struct ucx_library *library,
                           const struct ucx_options *options, ucp_config_t *config)
{
    char *all = options->count ? print_all(library, config) : NULL;
    tutti_status status = TUTTI_OK;

    if (options->count && !all)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for the list of UCX's settings");
    for (size_t i = 0; i < options->count && !status; i++) {
        const struct ucx_option *option = &options->list[i];

        status = check_name(caller, library, all, option);
        if (!status && option->tried && !option->taken)
            status = refuse_value(caller, option, "no transport of this host takes it");
    }
    free(all);
    return status;
}
