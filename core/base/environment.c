/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <own_plugins.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/text.h"

#define PREFIX "TUTTI_"
#define BETWEEN " | "

/* ---- rows ---- */

#define OWN(NAME, values, standard, agreement, meaning)                                            \
    {#NAME, values, standard, meaning, agreement, true, NULL, NULL},
#define AGREEMENT_OF(across) ((across) == TUTTI_OPTION_COMPARED ? ENV_COMPARED : ENV_MAY_DIFFER)
#define OPTION(plugin, variable, values, standard, across, idle, meaning)                          \
    {variable, values, standard, meaning, AGREEMENT_OF(across), true, plugin, idle},
#define OF_OTHERS(NAME, values, standard, agreement, meaning)                                      \
    {#NAME, values, standard, meaning, agreement, false, NULL, NULL},
#define LAUNCHER_MEANING(plugin)                                                                   \
    "When RANK and WORLD_SIZE are not set, the plugin `" plugin "` asks this launcher. "           \
    "Otherwise only a cross-check: more than one process with a world of 1 is an error."
#define OF_ENGINE(plugin, variable, values, agreement, meaning)                                    \
    {variable, values, "", meaning, agreement, false, NULL, NULL},
#define LAUNCHER(plugin, variable, launcher)                                                       \
    {variable, "<number>", "", LAUNCHER_MEANING(plugin), ENV_MAY_DIFFER, false, NULL, NULL},

static struct environment_variable own_rows[] = {ENVIRONMENT_OWN(OWN) OWN_OPTIONS(OPTION)};
static const struct environment_variable other_rows[] = {
    ENVIRONMENT_OF_OTHERS(OF_OTHERS) OWN_LAUNCHERS(LAUNCHER) OWN_VARIABLES(OF_ENGINE)};

#undef OWN
#undef OPTION
#undef OF_OTHERS
#undef OF_ENGINE
#undef LAUNCHER
#undef LAUNCHER_MEANING

static const size_t own_count = sizeof own_rows / sizeof own_rows[0];
static const size_t other_count = sizeof other_rows / sizeof other_rows[0];

/* Of plugins that were opened. The list only grows, at its end. */
struct learned {
    struct learned *_Atomic next;
    _Atomic bool compared; /* the names in the environment with it */
    struct environment_variable row;
};
static struct learned *_Atomic learned_rows;
static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;

static int by_name(const void *a, const void *b)
{
    const struct environment_variable *first = a, *second = b;

    return strcmp(first->name, second->name);
}

static void sort_own(void)
{
    qsort(own_rows, own_count, sizeof own_rows[0], by_name);
}

const struct environment_variable *environment_row(size_t i)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, sort_own);
    if (i < own_count)
        return &own_rows[i];
    i -= own_count;
    for (struct learned *at = atomic_load(&learned_rows); at; at = atomic_load(&at->next))
        if (!i--)
            return &at->row;
    return i < other_count ? &other_rows[i] : NULL;
}

const struct environment_variable *environment_find(const char *name)
{
    const struct environment_variable *row;

    for (size_t i = 0; (row = environment_row(i)); i++)
        if (!strcmp(row->name, name))
            return row;
    return NULL;
}

const struct environment_variable *environment_find_family(const char *name)
{
    const struct environment_variable *row;

    for (size_t i = 0; (row = environment_row(i)); i++) {
        const size_t fixed = strcspn(row->name, "<");

        if (row->name[fixed] && !strncmp(row->name, name, fixed) && name[fixed])
            return row;
    }
    return NULL;
}

tutti_status environment_learn(const char *plugin, const tutti_plugin_option *options)
{
    LOCK_SCOPE(&learning);
    for (; options->variable; options++) {
        struct learned *_Atomic *end = &learned_rows;
        struct learned *next;

        if (environment_find(options->variable))
            continue;
        while ((next = atomic_load(end)))
            end = &next->next;
        next = calloc(1, sizeof *next);
        if (!next)
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the options of plugin %s", plugin);
        next->row = (struct environment_variable){.name = options->variable,
                                                  .values = options->values,
                                                  .standard = options->standard,
                                                  .meaning = options->meaning,
                                                  .agreement = AGREEMENT_OF(options->across),
                                                  .own = true,
                                                  .plugin = plugin,
                                                  .idle = options->idle};
        atomic_store(end, next);
    }
    return TUTTI_OK;
}

/* ---- values ---- */

/* The next word of a choice at *at, copied; false at the end. */
static bool next_word(const char **at, char ret_word[DISTANCE_WORD_MAX + 1])
{
    if (!**at)
        return false;
    const char *end = strstr(*at, BETWEEN);
    size_t length = end ? (size_t)(end - *at) : strlen(*at);

    snprintf(ret_word, DISTANCE_WORD_MAX + 1, "%.*s", (int)length, *at);
    *at += length + (end ? strlen(BETWEEN) : 0);
    return true;
}

/* The choice that `value` is, as the table spells it. */
static bool find_choice(const struct environment_variable *row, const char *value,
                        char ret_word[DISTANCE_WORD_MAX + 1])
{
    const char *at = row->values;

    while (next_word(&at, ret_word))
        if (!strcasecmp(ret_word, value))
            return true;
    return false;
}

/* The advice for a value that is none of the choices; NULL: it is valid. */
static const char *kind_problem(const char *values, const char *value)
{
    int64_t seconds;

    if (!strcmp(values, "<seconds>"))
        return text_number(value, 0, ENVIRONMENT_SECONDS_MAX, &seconds)
                   ? NULL
                   : "use a number of seconds, 0 to 1000000";
    if (!strcmp(values, "<name>"))
        return text_is_name(value) ? NULL : "use the name of a plugin, such as mpi";
    if (!strcmp(values, "<words>"))
        return strlen(value) <= ENVIRONMENT_VALUE_MAX && text_is_printable(value)
                   ? NULL
                   : "use UTF-8 without control characters, 125 bytes at most";
    return NULL;
}

/* Whether every possible value begins with something, such as "tcp://", and this one does not. */
static bool has_no_beginning(const char *values, const char *value)
{
    char word[DISTANCE_WORD_MAX + 1];

    while (next_word(&values, word)) {
        const size_t fixed = strcspn(word, "<");

        if (!strncmp(value, word, fixed))
            return false;
    }
    return true;
}

/* "use OFF, WARN, INFO or DETAIL" */
static void use_words(const struct environment_variable *row, char *ret_message, size_t size)
{
    struct text text = text_in(ret_message, size);
    char word[DISTANCE_WORD_MAX + 1];
    const char *at = row->values;

    while (next_word(&at, word))
        text_add(&text, "%s%s", !text.used ? "use " : *at ? ", " : " or ", word);
}

/* The choice that `value` may be a typing error for, or "". */
static void nearest_choice(const struct environment_variable *row, const char *value,
                           char ret_nearest[DISTANCE_WORD_MAX + 1])
{
    char word[DISTANCE_WORD_MAX + 1], upper[DISTANCE_WORD_MAX + 1];
    const char *at = row->values;

    *ret_nearest = 0;
    snprintf(upper, sizeof upper, "%s", value);
    while (next_word(&at, word)) {
        for (size_t i = 0; upper[i]; i++) /* the spelling of the choice, where only case differs */
            if (word[0] >= 'A' && word[0] <= 'Z' && upper[i] >= 'a' && upper[i] <= 'z')
                upper[i] = (char)(upper[i] - 'a' + 'A');
        if (word_is_near(upper, word))
            memcpy(ret_nearest, word, sizeof word);
    }
}

void environment_problem(const struct environment_variable *row, const char *value,
                         char *ret_message, size_t size)
{
    char nearest[DISTANCE_WORD_MAX + 1] = "", use[128];
    const char *problem = use;

    *ret_message = 0;
    if (!row->own || !*value)
        return;
    use_words(row, use, sizeof use);
    if (!strchr(row->values, '<')) {
        if (find_choice(row, value, nearest))
            return;
        nearest_choice(row, value, nearest);
    } else {
        problem = kind_problem(row->values, value);
        if (!problem && !has_no_beginning(row->values, value))
            return;
        problem = problem ? problem : use;
    }
    snprintf(ret_message, size, "%s=%.*s is not valid: %s%s%s%s", row->name, TEXT_CUT(value, 64),
             problem, *nearest ? "; did you mean " : "", nearest, *nearest ? "?" : "");
}

tutti_status environment_check(const char *plugin)
{
    char message[ENVIRONMENT_MESSAGE_MAX];
    const struct environment_variable *row;

    for (size_t i = 0; (row = environment_row(i)); i++) {
        const char *value = getenv(row->name);

        if (plugin && (!row->plugin || strcmp(row->plugin, plugin) != 0))
            continue;
        environment_problem(row, value ? value : "", message, sizeof message);
        if (*message)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s", message);
    }
    return TUTTI_OK;
}

/* ---- values that nothing uses ---- */

struct environment_wrappers environment_wrappers(const char *option)
{
    const char *variable = secure_getenv("TUTTI_WRAP");

    if (option)
        return (struct environment_wrappers){option, "tutti_init_options.wrap"};
    return (struct environment_wrappers){variable ? variable : "", "TUTTI_WRAP"};
}

void environment_idle(const struct environment_variable *row, const char *value,
                      const struct environment_wrappers *wrappers, const char *plugins,
                      char *ret_message, size_t size)
{
    environment_problem(row, value, ret_message, size);
    const bool refused = *ret_message;

    *ret_message = 0;
    if (!*value || refused)
        return;
    if (row->idle && !text_list_has(wrappers->names, row->plugin))
        snprintf(ret_message, size, "%s is set, but %s does not name %s: %s", row->name,
                 wrappers->source, row->plugin, row->idle);
    if (!strcmp(row->name, "TUTTI_BOOTSTRAP") && !text_list_has(plugins, value))
        snprintf(ret_message, size, "%s=%.*s: there is no plugin of this name; known: %.*s",
                 row->name, TEXT_CUT(value, 64), TEXT_CUT(plugins, 200));
}

/* ---- settings ---- */

static bool is_on(const char *name)
{
    const char *value = getenv(name);

    return value && !strcmp(value, "1");
}

enum environment_tls environment_encrypts(void)
{
    const char *value = getenv("TUTTI_TLS");

    if (value && !strcasecmp(value, "where-possible"))
        return ENVIRONMENT_TLS_WHERE_POSSIBLE;
    return is_on("TUTTI_TLS") ? ENVIRONMENT_TLS : ENVIRONMENT_PLAIN;
}

bool environment_requires_secret(void)
{
    const char *value = getenv("TUTTI_AUTH");

    return (value && !strcasecmp(value, "required")) || environment_encrypts() == ENVIRONMENT_TLS;
}

bool environment_is_reproducible(void)
{
    return is_on("TUTTI_REPRODUCIBLE");
}

bool environment_lets_peers_read(void)
{
    const char *value = getenv("TUTTI_PEER_READS");

    return !value || !*value || is_on("TUTTI_PEER_READS");
}

bool environment_has_checksums(void)
{
    return is_on("TUTTI_CHECKSUM");
}

static void add_setting(struct text *settings, const struct environment_variable *row)
{
    char word[DISTANCE_WORD_MAX + 1];
    const char *value = getenv(row->name);

    if (value && !strchr(row->values, '<'))
        value = find_choice(row, value, word) ? word : NULL;
    if (!value || !*value || !text_is_printable(value))
        value = row->standard;
    text_add(settings, "%s=%.*s\n", row->name, TEXT_CUT(value, ENVIRONMENT_VALUE_MAX));
}

void environment_settings(char ret_settings[ENVIRONMENT_SETTINGS_MAX])
{
    struct text settings = text_in(ret_settings, ENVIRONMENT_SETTINGS_MAX);

    for (size_t i = 0; i < own_count; i++) {
        const struct environment_variable *row = environment_row(i);

        if (row->agreement == ENV_COMPARED && !strchr(row->values, '<'))
            add_setting(&settings, row);
    }
}

void environment_settings_of(const char *plugin, struct text *settings)
{
    for (struct learned *at = atomic_load(&learned_rows); at; at = atomic_load(&at->next))
        if (!strcmp(at->row.plugin, plugin) && at->row.agreement == ENV_COMPARED)
            add_setting(settings, &at->row);
}

/* ---- names ---- */

/* TUTTI_X_ is for programs and bindings: no release of tutti reads such a name. */
static bool is_left_to_others(const char *name)
{
    static const char *const names[] = {PREFIX "ROOT", PREFIX "DIR", PREFIX "HOME"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return !strncmp(name, PREFIX "X_", strlen(PREFIX "X_")) ||
           !strncmp(name, PREFIX "TEST_", strlen(PREFIX "TEST_")) ||
           !strncmp(name, PREFIX "CONFORMANCE", strlen(PREFIX "CONFORMANCE"));
}

/* All options of tutti's own plugins have rows, and those of a plugin that was opened and lists some. */
static bool has_rows(const char *plugin, size_t length)
{
#define NAME(name) name,
    static const char *const own[] = {OWN_PLUGINS(NAME)};
#undef NAME

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (text_is(plugin, length, own[i]))
            return true;
    for (struct learned *at = atomic_load(&learned_rows); at; at = atomic_load(&at->next))
        if (text_is(plugin, length, at->row.plugin))
            return true;
    return false;
}

bool environment_is_option_of(const char *plugin, size_t length, const char *variable)
{
    const char *at = variable + strlen(PREFIX);

    if (strncmp(variable, PREFIX, strlen(PREFIX)))
        return false;
    for (size_t i = 0; i < length; i++) {
        const char upper = plugin[i] >= 'a' && plugin[i] <= 'z' ? (char)(plugin[i] - 'a' + 'A')
                           : plugin[i] == '-'                   ? '_'
                                                                : plugin[i];

        if (at[i] != upper)
            return false;
    }
    return !at[length] || at[length] == '_';
}

static bool is_of_plugin(const char *name, const char *plugins)
{
    for (const char *at = plugins; *at; at += strspn(at, ", ")) {
        const size_t length = strcspn(at, ",");

        if (environment_is_option_of(at, length, name) && !has_rows(at, length))
            return true;
        at += length;
    }
    return false;
}

bool environment_has_new_names(const char *plugin)
{
    for (struct learned *at = atomic_load(&learned_rows); at; at = atomic_load(&at->next))
        if (!strcmp(at->row.plugin, plugin))
            return !atomic_exchange(&at->compared, true);
    return false;
}

bool environment_warns_here(void)
{
    const char *local = getenv("LOCAL_RANK");
    int64_t rank;

    return !local || !text_number(local, 1, INT64_MAX, &rank);
}

void environment_strangers(const char *plugins, const char *only,
                           void (*fn)(const char *name, const char *message, void *user),
                           void *user)
{
    for (struct learned *at = atomic_load(&learned_rows); at && !only; at = atomic_load(&at->next))
        atomic_store(&at->compared, true);
    for (char **entry = environ; entry && *entry; entry++) {
        char name[DISTANCE_WORD_MAX + 1], message[ENVIRONMENT_MESSAGE_MAX];
        const struct environment_variable *row;
        const char *nearest = NULL;

        if (strncmp(*entry, PREFIX, strlen(PREFIX)))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (only && !environment_is_option_of(only, strlen(only), name))
            continue;
        if (environment_find(name) || environment_find_family(name) || is_left_to_others(name) ||
            is_of_plugin(name, plugins))
            continue;
        for (size_t i = 0; (row = environment_row(i)); i++)
            if (row->own && word_is_near(name + strlen(PREFIX), row->name + strlen(PREFIX)))
                nearest = row->name;
        snprintf(message, sizeof message,
                 "%s is set, but nothing reads it; %s%s%s`tutti info --env` lists what is read",
                 name, nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
        fn(name, message, user);
    }
}
