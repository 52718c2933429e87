/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti completion SHELL`: a script that completes the words of this command. It is made from the
 * table of the verbs and from the tables of options that the verbs themselves parse with, so a verb
 * or an option that is added is completed without a change here. The build runs it for the files
 * that are installed.
 *
 * A value is completed by the name that its option gives it in the help: DIR and FILE are paths,
 * TYPE and OP the library's names, and the backend is one of those whose plugin is found.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/tensor.h>

#include "cli.h"
#include "verbs.h"

static const char summary[] =
    "Prints a completion script of this command for SHELL: bash, zsh or fish.";

static const char description[] = "Examples:\n"
                                  "  source <(tutti completion bash)\n"
                                  "  tutti completion fish | source\n";

struct option {
    const char *verb, *name, *help;
    char letter;      /* 0: none */
    bool takes_value; /* `values` are words, "<file>", "<directory>", or "" for anything */
    char *values;
};

/* ---- the tables ---- */

static void add_backend(const tutti_plugin_info *plugin, void *user)
{
    if (!*plugin->reason && strcmp(plugin->provides, "wrapper") != 0)
        g_string_append_printf(user, " %s", plugin->name);
}

static char *backends(void)
{
    GString *words = g_string_new("auto");

    tutti_plugin_files(add_backend, words);
    return g_string_free(words, FALSE);
}

static const char dtypes[] =
#define NAME(NAME, name, code, bits) name " "
    TUTTI_DTYPE_LIST(NAME);
#undef NAME

static const char ops[] =
#define NAME(NAME, name, number) name " "
    TUTTI_REDUCE_OP_LIST(NAME);
#undef NAME

static char *values_of(const GOptionEntry *entry)
{
    const char *what = entry->arg_description ? entry->arg_description : "";

    if (strcmp(entry->long_name, "backend") == 0)
        return backends();
    return g_strdup(strcmp(what, "DIR") == 0    ? "<directory>"
                    : strstr(what, "FILE")      ? "<file>"
                    : strcmp(what, "TYPE") == 0 ? dtypes
                    : strcmp(what, "OP") == 0   ? ops
                                                : "");
}

static void free_option(gpointer user)
{
    struct option *option = user;

    g_free(option->values);
    g_free(option);
}

/* The verb on top of "trace analyze": options are completed for all that is below it. */
static const char *top_verb(const char *words)
{
    size_t length = strcspn(words, " ");

    for (const struct verb *verb = verbs; verb->name; verb++)
        if (strlen(verb->name) == length && strncmp(verb->name, words, length) == 0)
            return verb->name;
    return words;
}

static void take_table(const char *verb, const GOptionEntry *entries, void *user)
{
    for (; entries->long_name; entries++) {
        struct option *option;

        if (entries->flags & G_OPTION_FLAG_HIDDEN)
            continue;
        option = g_new0(struct option, 1);
        *option = (struct option){.verb = top_verb(verb),
                                  .name = entries->long_name,
                                  .help = entries->description,
                                  .letter = entries->short_name,
                                  .takes_value = entries->arg != G_OPTION_ARG_NONE,
                                  .values = values_of(entries)};
        g_ptr_array_add(user, option);
    }
}

static GPtrArray *all_options(void)
{
    GPtrArray *options = g_ptr_array_new_with_free_func(free_option);

    cli_watch_tables(take_table, options);
    for (const struct verb *verb = verbs; verb->name; verb++) {
        char *argv[] = {(char *)verb->name, NULL};

        if (verb->main != completion_main)
            verb->main(1, argv);
    }
    cli_watch_tables(NULL, NULL);
    return options;
}

/* The words that follow a verb's options, with the names of operations in place; g_free(). */
static char *words_of(const struct verb *verb)
{
    g_autoptr(GString) words = g_string_new(verb->words);
    g_autofree char *operations = explain_operations(" "), *measured = bench_operations(" ");

    g_string_replace(words, "<operation>", operations, 1);
    g_string_replace(words, "<benchmark>", measured, 1);
    return g_strdup(words->str);
}

/* ---- bash ---- */

static void print_bash_options(const GPtrArray *options, const struct verb *verb)
{
    printf("        options='");
    for (guint i = 0; i < options->len; i++) {
        const struct option *option = options->pdata[i];

        if (strcmp(option->verb, verb->name) != 0)
            continue;
        if (option->letter)
            printf("-%c ", option->letter);
        printf("--%s ", option->name);
    }
    printf("--help'\n");
    printf("        case $before in\n");
    for (guint i = 0; i < options->len; i++) {
        const struct option *option = options->pdata[i];

        if (strcmp(option->verb, verb->name) != 0 || !option->takes_value)
            continue;
        printf("        --%s", option->name);
        if (option->letter)
            printf(" | -%c", option->letter);
        if (*option->values == '<')
            printf(") value=1 files=%s ;;\n", option->values[1] == 'd' ? "-d" : "-f");
        else
            printf(") values='%s' value=1 ;;\n", option->values);
    }
    printf("        esac\n");
}

static const char bash_begin[] =
    "# Completion of tutti for bash, as printed by `tutti completion bash`.\n"
    "_tutti()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local verb=${COMP_WORDS[1]} options= values= value= files= words=\n"
    "\n"
    "    # bash takes --name=value apart.\n"
    "    if [[ $word == = ]]; then\n"
    "        word=\n"
    "    elif [[ $before == = ]]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    ((COMP_CWORD > 1)) || verb=\n"
    "    case $verb in\n";

static const char bash_end[] =
    "    esac\n"
    "    if [[ $value ]]; then\n"
    "        options= words=$values\n"
    "    elif [[ $word != -* && $verb ]]; then\n"
    "        options=\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$options $words\" -- \"$word\")\n"
    "    if [[ $files ]]; then\n"
    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen $files -- \"$word\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -F _tutti tutti\n";

static void print_bash_verb(const GPtrArray *options, const struct verb *verb)
{
    g_autofree char *words = words_of(verb);
    const bool path = strstr(words, "<file>") || strstr(words, "<program>");

    printf("    %s)\n", verb->name);
    print_bash_options(options, verb);
    if (path)
        printf("        [[ $word == -* || $value ]] || files=-f\n");
    if (*words && words[0] != '<')
        printf("        words='%.*s'\n", (int)strcspn(words, "<"), words);
    puts("        ;;");
}

static void print_bash(const GPtrArray *options)
{
    fputs(bash_begin, stdout);
    for (const struct verb *verb = verbs; verb->name; verb++)
        print_bash_verb(options, verb);
    printf("    help | '')\n        words='");
    for (const struct verb *verb = verbs; verb->name; verb++)
        printf("%s ", verb->name);
    puts("'\n        [[ $verb ]] || words+='help --help --version'\n        ;;");
    fputs(bash_end, stdout);
}

/* ---- zsh ---- */

/* Within single quotes, where _arguments reads ':', '[' and ']' itself. */
static char *zsh_quoted(const char *text)
{
    GString *quoted = g_string_new(NULL);

    for (; *text; text++)
        if (*text == '\'')
            g_string_append(quoted, "'\\''");
        else if (strchr(":[]\\", *text))
            g_string_append_printf(quoted, "\\%c", *text);
        else
            g_string_append_c(quoted, *text);
    return g_string_free(quoted, FALSE);
}

static void print_zsh_value(const char *values)
{
    if (*values == '<')
        printf(":file:_files%s", values[1] == 'd' ? " -/" : "");
    else if (*values)
        printf(":value:(%s)", values);
    else
        printf(":value:");
}

static void print_zsh_option(const struct option *option)
{
    g_autofree char *help = zsh_quoted(option->help);

    if (option->letter)
        printf(" \\\n            '(-%c --%s)'{-%c,--%s}'[%s]", option->letter, option->name,
               option->letter, option->name, help);
    else
        printf(" \\\n            '--%s[%s]", option->name, help);
    if (option->takes_value)
        print_zsh_value(option->values);
    printf("'");
}

static void print_zsh_verb(const GPtrArray *options, const struct verb *verb)
{
    g_autofree char *words = words_of(verb);

    printf("    %s)\n        _arguments '--help[print help]'", verb->name);
    for (guint i = 0; i < options->len; i++) {
        const struct option *option = options->pdata[i];

        if (strcmp(option->verb, verb->name) == 0)
            print_zsh_option(option);
    }
    if (strstr(words, "<program>"))
        printf(" \\\n            '*::program:_normal'");
    else if (*words && words[0] != '<')
        printf(" \\\n            '1:word:(%.*s)'", (int)strcspn(words, "<"), words);
    if (strstr(words, "<file>"))
        printf(" \\\n            '*:file:_files'");
    puts("\n        ;;");
}

static void print_zsh(const GPtrArray *options)
{
    puts("#compdef tutti\n"
         "# Completion of tutti for zsh, as printed by `tutti completion zsh`.\n"
         "_tutti()\n"
         "{\n"
         "    local -a verbs=(");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        g_autofree char *help = zsh_quoted(verb->summary);

        printf("        '%s:%s'\n", verb->name, help);
    }
    puts("        'help:the help of a verb'\n"
         "    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe verb verbs\n"
         "        _arguments --help --version\n"
         "        return\n"
         "    fi\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $words[1] in");
    for (const struct verb *verb = verbs; verb->name; verb++)
        print_zsh_verb(options, verb);
    puts("    help) _describe verb verbs ;;\n"
         "    esac\n"
         "}\n"
         "_tutti \"$@\"");
}

/* ---- fish ---- */

static char *fish_quoted(const char *text)
{
    g_autoptr(GString) quoted = g_string_new(text);

    g_string_replace(quoted, "\\", "\\\\", 0);
    g_string_replace(quoted, "'", "\\'", 0);
    return g_strdup(quoted->str);
}

static void print_fish_option(const struct option *option)
{
    g_autofree char *help = fish_quoted(option->help);

    printf("complete -c tutti -n '__fish_seen_subcommand_from %s' -l %s", option->verb,
           option->name);
    if (option->letter)
        printf(" -s %c", option->letter);
    if (option->takes_value && *option->values == '<')
        printf(option->values[1] == 'd' ? " -x -a '(__fish_complete_directories)'" : " -r -F");
    else if (option->takes_value)
        printf(" -x%s%s%s", *option->values ? " -a '" : "", option->values,
               *option->values ? "'" : "");
    printf(" -d '%s'\n", help);
}

static void print_fish(const GPtrArray *options)
{
    puts("# Completion of tutti for fish, as printed by `tutti completion fish`.\n"
         "complete -c tutti -f\n"
         "complete -c tutti -n __fish_use_subcommand -l version -d 'print the version'\n"
         "complete -c tutti -n __fish_use_subcommand -a help -d 'the help of a verb'\n"
         "complete -c tutti -l help -d 'print help'");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        g_autofree char *help = fish_quoted(verb->summary), *words = words_of(verb);

        printf("complete -c tutti -n __fish_use_subcommand -a %s -d '%s'\n", verb->name, help);
        printf("complete -c tutti -n '__fish_seen_subcommand_from help' -a %s\n", verb->name);
        if (strstr(words, "<program>") || strstr(words, "<file>"))
            printf("complete -c tutti -n '__fish_seen_subcommand_from %s' -F\n", verb->name);
        if (*words && words[0] != '<')
            printf("complete -c tutti -n '__fish_seen_subcommand_from %s' -a '%.*s'\n", verb->name,
                   (int)strcspn(words, "<"), words);
    }
    for (guint i = 0; i < options->len; i++)
        print_fish_option(options->pdata[i]);
}

/* ---- the verb ---- */

int completion_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(const GPtrArray *options);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const GOptionEntry entries[] = {{NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (!cli_parse("completion", "SHELL", summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (argc != 1)
        return cli_usage("completion", argc ? "one shell only" : "no shell given");
    for (size_t i = 0; i < G_N_ELEMENTS(shells); i++)
        if (strcmp(shells[i].name, argv[0]) == 0) {
            g_autoptr(GPtrArray) options = all_options();

            shells[i].print(options);
            return EXIT_OK;
        }
    return cli_usage("completion", "unknown shell '%s'; known: bash, zsh, fish", argv[0]);
}
