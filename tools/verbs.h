/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs; argv[0] is the verb's name. Each returns the exit code. */
#pragma once

struct verb {
    const char *name;
    const char *summary;
    int (*main)(int argc, char **argv);
    /* The words that follow the options, for completion, between blanks: one may be <file> for a
     * path, <program> for a command with its own words, <operation> for a collective's name or
     * <benchmark> for what `tutti bench` measures; "": none. */
    const char *words;
};

/* Ends with a row without a name. */
extern const struct verb verbs[];

int run_main(int argc, char **argv);
int info_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int check_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int secret_main(int argc, char **argv);
int completion_main(int argc, char **argv);

/* The names of the operations; g_free(). */
char *explain_operations(const char *between);
char *bench_operations(const char *between);
