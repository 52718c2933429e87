/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/distance.h"
#include "wrap.h"

static void say(const char *verb, const char *format, va_list args)
{
    g_autofree char *words = g_strdup_vprintf(format, args);

    fprintf(stderr, "tutti%s%s: %s\n", verb ? " " : "", verb ? verb : "", words);
}

void cli_say(const char *verb, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(verb, format, args);
    va_end(args);
}

const char *cli_last_error(void)
{
    const char *words = tutti_last_error();
    const size_t name = strspn(words, "abcdefghijklmnopqrstuvwxyz_");

    return g_str_has_prefix(words, "tutti_") && g_str_has_prefix(words + name, ": ")
               ? words + name + 2
               : words;
}

int cli_say_failure(const char *verb, tutti_status status)
{
    cli_say(verb, "%s", cli_last_error());
    return status == TUTTI_ERR_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

int cli_usage(const char *verb, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(verb, format, args);
    va_end(args);
    fprintf(stderr, "Try 'tutti %s%s--help'.\n", verb ? verb : "", verb ? " " : "");
    return EXIT_USAGE;
}

const char *cli_nearest(const char *word, const char *const *candidates)
{
    while (*candidates && !word_is_near(word, *candidates))
        candidates++;
    return *candidates;
}

int cli_unknown(const char *verb, const char *what, const char *word, const char *const *known)
{
    g_autofree char *all = g_strjoinv(", ", (char **)known);
    const char *nearest = cli_nearest(word, known);

    return nearest ? cli_usage(verb, "unknown %s '%s'; did you mean '%s'? Known: %s", what, word,
                               nearest, all)
                   : cli_usage(verb, "unknown %s '%s'; known: %s", what, word, all);
}

/* The entry of "--name" or "--name=value", NULL: none. */
static const GOptionEntry *long_option(const GOptionEntry *entries, const char *arg)
{
    const size_t length = strcspn(arg + 2, "=");

    for (; entries->long_name; entries++)
        if (strlen(entries->long_name) == length &&
            strncmp(entries->long_name, arg + 2, length) == 0)
            return entries;
    return NULL;
}

/* The first long option in argv that `entries` does not have, without its dashes and value. */
static char *unknown_option(const GOptionEntry *entries, char *const *argv)
{
    for (char *const *arg = argv + 1; *arg && strcmp(*arg, "--") != 0; arg++)
        if (g_str_has_prefix(*arg, "--") && !long_option(entries, *arg))
            return g_strndup(*arg + 2, strcspn(*arg + 2, "="));
    return NULL;
}

static void say_bad_option(const char *verb, const GOptionEntry *entries, char *const *argv,
                           const GError *error)
{
    g_autofree char *name = NULL;

    if (g_error_matches(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION))
        name = unknown_option(entries, argv);
    if (!name) { /* GLib's words, in our style */
        cli_usage(verb, "%c%s", g_ascii_tolower(error->message[0]), error->message + 1);
        return;
    }

    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (; entries->long_name; entries++)
        if (!(entries->flags & G_OPTION_FLAG_HIDDEN))
            g_ptr_array_add(names, (gpointer)entries->long_name);
    g_ptr_array_add(names, (gpointer) "help");
    g_ptr_array_add(names, NULL);

    const char *nearest = cli_nearest(name, (const char *const *)names->pdata);

    if (nearest)
        cli_usage(verb, "unknown option --%s; did you mean --%s?", name, nearest);
    else
        cli_usage(verb, "unknown option --%s", name);
}

static struct {
    cli_table_fn fn;
    void *user;
} watcher;

void cli_watch_tables(cli_table_fn fn, void *user)
{
    watcher.fn = fn;
    watcher.user = user;
}

bool cli_is_watched(void)
{
    return watcher.fn != NULL;
}

/* The letter's option when it takes a value. */
static bool takes_value(const GOptionEntry *entries, char letter)
{
    for (; entries->long_name; entries++)
        if (entries->short_name == letter)
            return entries->arg != G_OPTION_ARG_NONE;
    return false;
}

/* Whether the value of "--name" is the next word. */
static bool names_value(const GOptionEntry *entries, const char *arg)
{
    const GOptionEntry *entry = strchr(arg, '=') ? NULL : long_option(entries, arg);

    return entry && entry->arg != G_OPTION_ARG_NONE;
}

/* The entry of "--name=value" when it takes no value, which GOption would ignore; NULL: it does. */
static const GOptionEntry *needless_value(const GOptionEntry *entries, const char *arg)
{
    const GOptionEntry *entry = strchr(arg, '=') ? long_option(entries, arg) : NULL;

    return entry && entry->arg == G_OPTION_ARG_NONE ? entry : NULL;
}

/* How many bytes of "-n4" are the option, 0: it holds no value. */
static size_t option_length(const GOptionEntry *entries, const char *arg)
{
    for (size_t i = 1; arg[i]; i++)
        if (takes_value(entries, arg[i]))
            return i + 1;
    return 0;
}

/*
 * GOption knows "-n 4" only: "-n4" becomes two words, as getopt(3) would take it. The words stay for
 * the life of the process. False after having said that an option takes no value.
 */
static bool split_values(const char *verb, const GOptionEntry *entries, bool stop_early, int *argc,
                         char ***argv)
{
    static GPtrArray *kept;
    GPtrArray *words = g_ptr_array_new();
    bool options = true, value = false;

    if (!kept)
        kept = g_ptr_array_new();
    g_ptr_array_add(kept, words);
    for (int i = 0; i < *argc; i++) {
        char *arg = (*argv)[i];
        const bool is_option = i && options && !value && arg[0] == '-' && arg[1];
        size_t length = 0;

        if (is_option && strcmp(arg, "--") == 0) {
            options = false;
        } else if (is_option && arg[1] == '-') {
            const GOptionEntry *wrong = needless_value(entries, arg);

            if (wrong) {
                cli_usage(verb, "--%s takes no value: '%s'", wrong->long_name, arg);
                return false;
            }
            value = names_value(entries, arg);
        } else if (is_option) {
            length = option_length(entries, arg);
            value = length && !arg[length];
        } else {
            options = options && (!i || value || !stop_early);
            value = false;
        }
        if (length && arg[length]) {
            g_ptr_array_add(words, g_strndup(arg, length));
            g_ptr_array_add(kept, words->pdata[words->len - 1]);
            arg += length;
        }
        g_ptr_array_add(words, arg);
    }
    *argc = (int)words->len;
    g_ptr_array_add(words, NULL);
    *argv = (char **)words->pdata;
    return true;
}

/* An option's line, wrapped behind its name; any other line that is indented stays as it is. */
static void print_indented(const char *line)
{
    const char *gap = g_str_has_prefix(line, "  -") ? strstr(line + 2, "  ") : NULL;
    g_autofree char *name = NULL;

    if (!gap || wrap_width(line) <= wrap_columns()) {
        puts(line);
        return;
    }
    name = g_strndup(line, (gsize)(gap - line) + strspn(gap, " "));
    printf("%s", name);
    wrap_print(wrap_width(name), wrap_width(name), line + strlen(name));
}

/* GOption's text, its paragraphs filled to the width there is. */
static void print_help(GOptionContext *context)
{
    g_autofree char *help = g_option_context_get_help(context, FALSE, NULL);
    /* GOption prints --tune=[FILE] for a value that may be left out. */
    g_auto(GStrv) halves = g_strsplit(g_strchomp(help), "=[", -1);
    g_autofree char *text = g_strjoinv("[=", halves);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(GString) paragraph = g_string_new(NULL);

    for (char **line = lines; *line; line++) {
        const bool flows = **line && **line != ' ';

        if (flows)
            g_string_append_printf(paragraph, "%s%s", paragraph->len ? " " : "", *line);
        if (paragraph->len && (!flows || !line[1] || g_str_has_suffix(*line, ":"))) {
            wrap_print(0, 0, paragraph->str);
            g_string_truncate(paragraph, 0);
        }
        if (!flows)
            print_indented(*line);
    }
}

bool cli_parse(const char *verb, const char *parameters, const char *summary,
               const char *description, const GOptionEntry *entries, bool stop_early, int *argc,
               char ***argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new(parameters);
    g_autoptr(GError) error = NULL;
    g_autofree char *name = g_strdup_printf("tutti %s", verb);

    gboolean help = FALSE;
    const GOptionEntry help_entries[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "Print this help", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (watcher.fn) {
        watcher.fn(verb, entries, watcher.user);
        return false;
    }
    if (!split_values(verb, entries, stop_early, argc, argv))
        return false;

    g_autofree char **before = g_memdup2(*argv, ((gsize)*argc + 1) * sizeof **argv);

    g_set_prgname(name); /* GOption prints it in the usage line */
    g_option_context_set_summary(context, summary);
    g_option_context_set_description(context, description);
    g_option_context_set_strict_posix(context, stop_early);
    g_option_context_set_help_enabled(context, FALSE); /* its options would come first */
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_add_main_entries(context, help_entries, NULL);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        say_bad_option(verb, entries, before, error);
        return false;
    }
    if (help) {
        print_help(context);
        exit(EXIT_OK);
    }
    (*argc)--;
    (*argv)++;
    if (*argc > 0 && strcmp((*argv)[0], "--") == 0) { /* GOption leaves it in some cases */
        (*argc)--;
        (*argv)++;
    }
    return true;
}

bool cli_parse_size(const char *text, uint64_t *ret_bytes)
{
    static const char suffixes[] = "KMGT";
    char *end;

    if (!g_ascii_isdigit(text[0]))
        return false;
    errno = 0;
    guint64 value = g_ascii_strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end) {
        const char *suffix = strchr(suffixes, g_ascii_toupper(*end));

        if (suffix) {
            int shift = 10 * (int)(suffix - suffixes + 1);

            if (value > UINT64_MAX >> shift)
                return false;
            value <<= shift;
            end++;
            if (*end == 'i')
                end++;
        }
        if (g_ascii_toupper(*end) == 'B')
            end++;
    }
    if (*end)
        return false;
    *ret_bytes = value;
    return true;
}

bool cli_is_number(const char *text)
{
    char *end;

    g_ascii_strtoll(text, &end, 10);
    return end != text && !*end;
}

bool cli_parse_int(const char *text, int low, int high, int *ret_value)
{
    char *end;

    errno = 0;
    gint64 value = g_ascii_strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        return false;
    *ret_value = (int)value;
    return true;
}

void cli_json_string(JsonBuilder *builder, const char *name, const char *value)
{
    g_autofree char *valid = value ? g_utf8_make_valid(value, -1) : NULL;

    json_builder_set_member_name(builder, name);
    if (valid)
        json_builder_add_string_value(builder, valid);
    else
        json_builder_add_null_value(builder);
}

void cli_json_int(JsonBuilder *builder, const char *name, gint64 value)
{
    json_builder_set_member_name(builder, name);
    json_builder_add_int_value(builder, value);
}

void cli_json_bool(JsonBuilder *builder, const char *name, bool value)
{
    json_builder_set_member_name(builder, name);
    json_builder_add_boolean_value(builder, value);
}

void cli_json_array(JsonBuilder *builder, const char *name)
{
    json_builder_set_member_name(builder, name);
    json_builder_begin_array(builder);
}

void cli_print_json(JsonBuilder *builder)
{
    g_autoptr(JsonNode) root = json_builder_get_root(builder);
    g_autofree char *text = json_to_string(root, TRUE);

    puts(text);
}

static enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color_choice;

bool cli_choose_color(const char *when)
{
    static const char *const choices[] = {
        [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never"};

    for (int i = COLOR_AUTO; i <= COLOR_NEVER; i++)
        if (strcmp(when, choices[i]) == 0) {
            color_choice = i;
            return true;
        }
    return false;
}

bool cli_color(int fd)
{
    if (color_choice != COLOR_AUTO)
        return color_choice == COLOR_ALWAYS;

    const char *off = getenv("NO_COLOR"), *on = getenv("CLICOLOR_FORCE"),
               *terminal = getenv("TERM");

    if (off && *off)
        return false;
    if (on && *on && strcmp(on, "0") != 0)
        return true;
    return isatty(fd) && terminal && strcmp(terminal, "dumb") != 0;
}

bool cli_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
