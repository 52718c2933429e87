/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/distance.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#define PREFIX "TUTTI_"
#define BETWEEN " | "

enum { NAME_MAX_BYTES = 31 };

const struct environment_variable environment_table[] = {
#define OWN(NAME, values, standard, agreement, meaning)                                            \
    {#NAME, values, standard, meaning, agreement, true},
#define OF_OTHERS(NAME, values, standard, agreement, meaning)                                      \
    {#NAME, values, standard, meaning, agreement, false},
    ENVIRONMENT_OWN(OWN) ENVIRONMENT_OF_OTHERS(OF_OTHERS)
#undef OWN
#undef OF_OTHERS
        {NULL, NULL, NULL, NULL, ENV_MAY_DIFFER, false}};

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

/* A plugin's name: a lower-case letter, then letters, digits, '_' and '-', 31 at most. */
static bool is_name(const char *text)
{
    const size_t length = strlen(text);

    for (size_t i = 0; i < length; i++) {
        const bool letter = text[i] >= 'a' && text[i] <= 'z';
        const bool other = (text[i] >= '0' && text[i] <= '9') || text[i] == '_' || text[i] == '-';

        if (!letter && (!i || !other))
            return false;
    }
    return length && length <= NAME_MAX_BYTES;
}

static bool are_words(const char *text)
{
    return strlen(text) <= ENVIRONMENT_VALUE_MAX && text_is_printable(text);
}

/* What to use instead of a value that is no choice of words; NULL: it is valid. */
static const char *kind_problem(const char *values, const char *value)
{
    int64_t seconds;

    if (!strcmp(values, "<seconds>"))
        return number_parse(value, 0, ENVIRONMENT_SECONDS_MAX, &seconds)
                   ? NULL
                   : "use a number of seconds, 0 to 1000000";
    if (!strcmp(values, "<name>"))
        return is_name(value) ? NULL : "use the name of a plugin, such as mpi";
    if (!strcmp(values, "<words>"))
        return are_words(value) ? NULL : "use UTF-8 without control characters, 125 bytes at most";
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
static void use_words(const struct environment_variable *row, char *ret_words, size_t size)
{
    struct text text = text_in(ret_words, size);
    char word[DISTANCE_WORD_MAX + 1];
    const char *at = row->values;

    while (next_word(&at, word))
        text_add(&text, "%s%s", !text.used ? "use " : *at ? ", " : " or ", word);
}

static void choice_problem(const struct environment_variable *row, const char *value,
                           char *ret_words, size_t size)
{
    char word[DISTANCE_WORD_MAX + 1], nearest[DISTANCE_WORD_MAX + 1] = "";
    char upper[DISTANCE_WORD_MAX + 1], use[128];
    const char *at = row->values;

    snprintf(upper, sizeof upper, "%s", value);
    while (next_word(&at, word)) {
        for (size_t i = 0; upper[i]; i++) /* the spelling of the choice, where only case differs */
            if (word[0] >= 'A' && word[0] <= 'Z' && upper[i] >= 'a' && upper[i] <= 'z')
                upper[i] = (char)(upper[i] - 'a' + 'A');
        if (word_is_near(upper, word))
            memcpy(nearest, word, sizeof nearest);
    }
    use_words(row, use, sizeof use);
    snprintf(ret_words, size, "%s=%.*s is not valid: %s%s%s%s", row->name, TEXT_CUT(value, 64), use,
             *nearest ? "; did you mean " : "", nearest, *nearest ? "?" : "");
}

void environment_problem(const struct environment_variable *row, const char *value, char *ret_words,
                         size_t size)
{
    char word[DISTANCE_WORD_MAX + 1];

    *ret_words = 0;
    if (!row->own || !*value)
        return;
    if (!strchr(row->values, '<')) {
        if (!find_choice(row, value, word))
            choice_problem(row, value, ret_words, size);
        return;
    }
    const char *problem = kind_problem(row->values, value);
    char use[128];

    use_words(row, use, sizeof use);
    if (!problem && has_no_beginning(row->values, value))
        problem = use;
    if (problem)
        snprintf(ret_words, size, "%s=%.*s is not valid: %s", row->name, TEXT_CUT(value, 64),
                 problem);
}

tutti_status environment_check(void)
{
    char words[ENVIRONMENT_WORDS_MAX];

    for (const struct environment_variable *row = environment_table; row->name; row++) {
        const char *value = getenv(row->name);

        environment_problem(row, value ? value : "", words, sizeof words);
        if (*words)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s", words);
    }
    return TUTTI_OK;
}

/* ---- values that nothing uses ---- */

/* Whether a list with commas, and spaces behind them, names it. */
static bool has_name(const char *list, const char *name)
{
    const size_t length = strlen(name);

    while (*list) {
        const size_t n = strcspn(list, ",");

        if (n == length && !memcmp(list, name, n))
            return true;
        list += n;
        list += strspn(list, ", ");
    }
    return false;
}

struct environment_wrappers environment_wrappers(const char *option)
{
    const char *variable = secure_getenv("TUTTI_WRAP");

    if (option)
        return (struct environment_wrappers){option, "tutti_init_options.wrap"};
    return (struct environment_wrappers){variable ? variable : "", "TUTTI_WRAP"};
}

void environment_idle(const struct environment_variable *row, const char *value,
                      const struct environment_wrappers *wrappers, const char *plugins,
                      char *ret_words, size_t size)
{
    static const struct {
        const char *variable, *wrapper, *outcome;
    } options[] = {{"TUTTI_CHECK", "check", "nothing is looked at"},
                   {"TUTTI_FAULT", "fault", "nothing is injected"},
                   {"TUTTI_TRACE_DIR", "trace", "nothing is written"}};

    environment_problem(row, value, ret_words, size);
    const bool refused = *ret_words;

    *ret_words = 0;
    if (!*value || refused)
        return;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (!strcmp(row->name, options[i].variable) &&
            !has_name(wrappers->names, options[i].wrapper))
            snprintf(ret_words, size, "%s is set, but %s does not name %s: %s", row->name,
                     wrappers->source, options[i].wrapper, options[i].outcome);
    if (!strcmp(row->name, "TUTTI_BOOTSTRAP") && !has_name(plugins, value))
        snprintf(ret_words, size, "%s=%.*s: there is no plugin of this name; known: %.*s",
                 row->name, TEXT_CUT(value, 64), TEXT_CUT(plugins, 200));
}

/* ---- settings ---- */

bool environment_is_reproducible(void)
{
    const char *value = getenv("TUTTI_REPRODUCIBLE");

    return value && !strcmp(value, "1");
}

void environment_settings(char ret_settings[ENVIRONMENT_SETTINGS_MAX])
{
    size_t used = 0;

    *ret_settings = 0;
    for (const struct environment_variable *row = environment_table; row->name; row++) {
        char word[DISTANCE_WORD_MAX + 1];
        const char *value = getenv(row->name);

        if (!row->own || row->agreement != ENV_COMPARED || strchr(row->values, '<'))
            continue;
        if (!value || !find_choice(row, value, word))
            snprintf(word, sizeof word, "%s", row->standard);
        int n = snprintf(ret_settings + used, ENVIRONMENT_SETTINGS_MAX - used, "%s=%s\n", row->name,
                         word);
        if (n < 0 || (size_t)n >= ENVIRONMENT_SETTINGS_MAX - used)
            return;
        used += (size_t)n;
    }
}

/* ---- names ---- */

static bool has_row(const char *name)
{
    for (const struct environment_variable *row = environment_table; row->name; row++)
        if (!strcmp(row->name, name))
            return true;
    return false;
}

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

/* Options of tutti's own plugins have rows; nobody knows those of others. */
static bool has_rows(const char *plugin, size_t length)
{
    static const char *const own[] = {"check", "fault", "gloo", "mpi", "shm", "tcp", "trace"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i]) == length && !memcmp(plugin, own[i], length))
            return true;
    return false;
}

/* Whether `name` is TUTTI_ and a plugin's name, or begins with that and '_'; a '-' in a plugin's name
 * is '_'. */
static bool is_of_plugin(const char *name, const char *plugins)
{
    for (const char *at = plugins; *at;) {
        const char *letter = name + strlen(PREFIX);
        size_t length = strcspn(at, ","), i = 0;

        for (; i < length; i++) {
            const char upper = at[i] >= 'a' && at[i] <= 'z' ? (char)(at[i] - 'a' + 'A')
                               : at[i] == '-'               ? '_'
                                                            : at[i];

            if (letter[i] != upper)
                break;
        }
        if (i == length && !has_rows(at, length) && (letter[length] == '_' || !letter[length]))
            return true;
        at += length;
        at += strspn(at, ", ");
    }
    return false;
}

void environment_strangers(const char *plugins,
                           void (*fn)(const char *name, const char *words, void *user), void *user)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[DISTANCE_WORD_MAX + 1], words[ENVIRONMENT_WORDS_MAX];
        const char *nearest = NULL;

        if (strncmp(*entry, PREFIX, strlen(PREFIX)))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (has_row(name) || is_left_to_others(name) || is_of_plugin(name, plugins))
            continue;
        for (const struct environment_variable *row = environment_table; row->name; row++)
            if (row->own && word_is_near(name + strlen(PREFIX), row->name + strlen(PREFIX)))
                nearest = row->name;
        snprintf(words, sizeof words,
                 "%s is set, but nothing reads it; %s%s%s`tutti info --env` lists what is read",
                 name, nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
        fn(name, words, user);
    }
}
