/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti trace`: finds the verb below it. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "verbs.h"

/* The verbs below. */
static const struct verb below[] = {
    {"analyze", "find the late or stuck rank in the dumps of a job", trace_analyze_main, "<file>"},
    {"merge", "one timeline for Perfetto, from the files of all ranks", trace_merge_main, "<file>"},
};

static void print_help(FILE *out)
{
    fputs("Usage: tutti trace VERB [OPTIONS] …\n\nVerbs:\n", out);
    for (size_t i = 0; i < G_N_ELEMENTS(below); i++)
        fprintf(out, "  %-9s %s\n", below[i].name, below[i].summary);
    fputs("\nExamples:\n"
          "  tutti trace analyze /tmp/dumps\n"
          "  tutti trace merge /tmp/timelines\n",
          out);
}

static int hand_over_tables(void)
{
    char *none[] = {NULL};

    for (size_t i = 0; i < G_N_ELEMENTS(below); i++)
        below[i].main(0, none);
    return EXIT_OK;
}

int trace_main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const char *names[G_N_ELEMENTS(below) + 1] = {NULL};

    for (size_t i = 0; i < G_N_ELEMENTS(below); i++) {
        names[i] = below[i].name;
        if (strcmp(below[i].name, word) == 0)
            return below[i].main(argc - 1, argv + 1);
    }
    if (cli_is_watched())
        return hand_over_tables();
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (!*word) {
        print_help(stderr);
        return EXIT_USAGE;
    }

    const char *nearest = cli_nearest(word, names);

    return nearest ? cli_usage("trace", "unknown verb '%s'; did you mean '%s'?", word, nearest)
                   : cli_usage("trace", "unknown verb '%s'", word);
}
