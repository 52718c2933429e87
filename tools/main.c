/* SPDX-License-Identifier: Apache-2.0 */
/* The command `tutti`: finds the verb, prints help and version. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/info.h>
#include <tutti/version.h>

#include "cli.h"
#include "mpi/pmi_proxy.h"
#include "verbs.h"

const struct verb verbs[] = {
    {"run", "start a program as several ranks on this host", run_main, "<program>"},
    {"info", "show version, plugins, network and limits", info_main, ""},
    {"explain", "show which backend and algorithm a call would take, and why", explain_main,
     "<operation>"},
    {"trace", "find the late or stuck rank in a job's dumps; merge timelines", trace_main,
     "analyze merge <file>"},
    {"bench", "measure operations and messages between ranks", bench_main, "all <benchmark>"},
    {"check", "check that a plugin keeps the rules and its promises", check_main, "<file>"},
    {"secret", "show or make the secret by which ranks prove themselves", secret_main, ""},
    {"completion", "print a shell-completion script", completion_main, "bash zsh fish"},
    {NULL, NULL, NULL, NULL},
};

static void print_help(FILE *out)
{
    fputs("Usage: tutti VERB [OPTIONS] …\n\nVerbs:\n", out);
    for (const struct verb *verb = verbs; verb->name; verb++)
        fprintf(out, "  %-11s %s\n", verb->name, verb->summary);
    fputs("  help        this text, or the help of a verb: tutti help run\n\n"
          "Options:\n"
          "  --help, --version\n\n"
          "Examples:\n"
          "  tutti run -n 4 ./train\n"
          "  tutti info --json\n"
          "  tutti explain all_reduce --bytes 1M -n 4\n"
          "  tutti bench all_reduce --sizes 8,1M\n"
          "  tutti trace analyze /tmp/dumps\n",
          out);
}

/* Ranks report variables that nothing uses: most verbs start no ranks, and would not use such a
 * variable either. */
static void warn_of_variable(const tutti_variable_info *variable, void *user)
{
    (void)user;
    if (*variable->problem && !variable->idle)
        cli_say(NULL, "%s", variable->problem);
}

static const struct verb *find_verb(const char *name)
{
    for (const struct verb *verb = verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

static int unknown_verb(const char *word)
{
    const char *names[G_N_ELEMENTS(verbs) + 1] = {"help"};

    for (size_t i = 0; verbs[i].name; i++)
        names[i + 1] = verbs[i].name;

    const char *nearest = cli_nearest(word, names);
    const char *kind = word[0] == '-' ? "option" : "verb";

    if (nearest)
        return cli_usage(NULL, "unknown %s '%s'; did you mean '%s'?", kind, word, nearest);
    return cli_usage(NULL, "unknown %s '%s'", kind, word);
}

/* At exit: a script that redirects the output must hear of a full disk. */
static void check_output(void)
{
    const bool failed = ferror(stdout);

    if (!fflush(stdout) && !failed)
        return;
    cli_say(NULL, "the output could not be written: %s", strerror(errno));
    _exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const struct verb *verb = find_verb(word);

    if (strcmp(word, "pmi-proxy") == 0 && argc == 3) /* by mpirun, which `tutti run` has started */
        return pmi_proxy_main(argv[2]);
    setlocale(LC_CTYPE, "");
    (void)atexit(check_output);
    if (verb && verb->main != run_main &&
        verb->main != bench_main) /* whose ranks tell it themselves */
        tutti_environment_list(warn_of_variable, NULL);
    if (verb)
        return verb->main(argc - 1, argv + 1);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("tutti %s\n", tutti_version());
        return EXIT_OK;
    }
    if (strcmp(word, "help") == 0 && argc > 2) {
        char help[] = "--help", *asked[] = {argv[2], help, NULL};

        verb = find_verb(argv[2]);
        return verb ? verb->main(2, asked) : unknown_verb(argv[2]);
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (argc > 1)
        return unknown_verb(word);
    print_help(stderr);
    return EXIT_USAGE;
}
