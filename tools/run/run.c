/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti run`: reads the command line, finds the program, hands over to the launcher. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "run/foreign.h"
#include "run/job.h"
#include "run/launcher.h"
#include "run/program.h"
#include "verbs.h"

static const char summary[] =
    "Starts PROGRAM as N ranks on this host and ends them together. Each rank gets RANK,\n"
    "LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the other variables that torchrun sets;\n"
    "the launcher serves the store they meet in, on a free port of 127.0.0.1. What they print\n"
    "comes out line by line with \"[RANK] \" in front. Rank 0 has the launcher's standard input,\n"
    "the others /dev/null.\n\n"
    "The first rank that fails ends the job: the others may end by themselves for a second, as\n"
    "those do that tutti tells of the failure, then get SIGTERM, and SIGKILL after the grace.\n"
    "Ctrl-C sends SIGTERM at once and ends within 2 s; a second Ctrl-C kills. No process of the\n"
    "job outlives the launcher, however that ends.\n\n"
    "SIGUSR2 is passed on to the ranks that take it: they dump their calls (tutti help trace).";

static const char description[] =
    "PROGRAM is found in PATH, or is a path. A .py file that is not executable is run by\n"
    "python3 -u.\n\n"
    "Exit code: 0 when every rank exited with 0; else the code of the rank that failed first,\n"
    "or 128+n when signal n ended it; 130 after Ctrl-C; 2 for a wrong command line; 126 or 127\n"
    "when the program cannot be started.\n\n"
    "Examples:\n"
    "  tutti run -n 4 ./train --epochs 3\n"
    "  tutti run -n auto --backend shm ./train\n"
    "  tutti run -n 2 --log-dir logs --tee train.py\n"
    "  tutti run -n 3 -- sh -c 'echo $RANK of $WORLD_SIZE'\n";

enum { LONGEST_S = 86400 };

/* The fields that GOption fills in. */
struct given {
    char *ranks, *backend, *log_dir, *wait, *grace, *stopped, *color, *nodes;
    gboolean tee, ignored;
};

/* `text` NULL: `ret_seconds` stays. */
static bool parse_seconds(const char *option, const char *text, double *ret_seconds)
{
    char *end;

    if (!text)
        return true;

    double seconds = g_ascii_strtod(text, &end);

    if (end == text || *end || g_ascii_isspace(*text)) {
        cli_usage("run", "%s '%s' is not a number of seconds", option, text);
        return false;
    }
    if (!(seconds >= 0 && seconds <= LONGEST_S)) {
        cli_usage("run", "%s '%s': a number of seconds from 0 to %d", option, text, LONGEST_S);
        return false;
    }
    *ret_seconds = seconds;
    return true;
}

/* A folder of its own for each launch, so that nothing is overwritten; torchrun's layout below. */
static bool make_log_dir(const struct given *given, char **ret_dir)
{
    g_autofree char *base =
        given->log_dir ? g_canonicalize_filename(given->log_dir, NULL) : g_strdup(g_get_tmp_dir());
    g_autofree char *job = g_build_filename(base, "tutti-XXXXXX", NULL);

    if (g_mkdir_with_parents(base, 0777) < 0 || !g_mkdtemp_full(job, 0777)) {
        cli_say("run", "cannot make a log folder in %s: %s", base, strerror(errno));
        return false;
    }
    *ret_dir = g_build_filename(job, "attempt_0", NULL);
    cli_say("run", "logs of the ranks: %s/RANK/{stdout,stderr}.log", *ret_dir);
    return true;
}

/* `words`: the program and its arguments. */
static int run_job(const struct given *given, char *const *words)
{
    g_autofree char *log_dir = NULL, *program = NULL;
    g_auto(GStrv) argv = NULL;
    struct launch_options options = {
        .wait_s = 1,
        .grace_s = 5,
        .stopped_s = 30,
        .ranks = 1,
        .backend = given->backend,
        .console = given->tee || !given->log_dir,
    };

    if (!job_parse_ranks("run", given->ranks, &options.ranks) ||
        !parse_seconds("--wait", given->wait, &options.wait_s) ||
        !parse_seconds("--grace", given->grace, &options.grace_s) ||
        !parse_seconds("--stopped", given->stopped, &options.stopped_s))
        return EXIT_USAGE;
    if (given->color && !cli_choose_color(given->color))
        return cli_usage("run", "--color '%s': auto, always or never", given->color);
    if (!*words)
        return cli_usage("run", "no program given");
    if (given->tee && cli_is_number(*words) && access(*words, F_OK) < 0)
        return cli_usage("run", "--tee takes no value, and there is no program '%s'", *words);
    if (!job_find_mpi("run", &options))
        return EXIT_USAGE;

    int not_found = program_find(words, &program, &argv);

    if (not_found)
        return not_found;
    if ((given->log_dir || given->tee) && !make_log_dir(given, &log_dir))
        return EXIT_FAILED;
    options.program = program;
    options.argv = argv;
    options.log_dir = log_dir;
    return job_run(&options);
}

int run_main(int argc, char **argv)
{
    struct given given = {.ranks = NULL};
    const GOptionEntry entries[] = {
        {"nproc-per-node", 'n', 0, G_OPTION_ARG_STRING, &given.ranks,
         "Number of ranks, or auto: one per usable CPU (default 1)", "N"},
        {"backend", 0, 0, G_OPTION_ARG_STRING, &given.backend,
         "Sets TUTTI_BACKEND for the ranks: auto, shm, tcp, …", "NAME"},
        {"log-dir", 0, 0, G_OPTION_ARG_FILENAME, &given.log_dir,
         "Write what the ranks print to files in a new folder of DIR instead", "DIR"},
        {"tee", 0, 0, G_OPTION_ARG_NONE, &given.tee, "Write files, and print as well", NULL},
        {"wait", 0, 0, G_OPTION_ARG_STRING, &given.wait,
         "Seconds for others to end by themselves after the first failure (default 1)", "S"},
        {"grace", 0, 0, G_OPTION_ARG_STRING, &given.grace,
         "Seconds from SIGTERM to SIGKILL (default 5)", "S"},
        {"stopped", 0, 0, G_OPTION_ARG_STRING, &given.stopped,
         "Seconds for stopped ranks to go on when all others have ended (default 30)", "S"},
        {"color", 0, 0, G_OPTION_ARG_STRING, &given.color,
         "Colours: auto (on a terminal, without NO_COLOR), always or never", "WHEN"},
        /* what torchrun's users type out of habit */
        {"nproc_per_node", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &given.ranks, "", "N"},
        {"log_dir", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &given.log_dir, "", "DIR"},
        {"nnodes", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &given.nodes, "", "1"},
        {"standalone", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &given.ignored, "", NULL},
        {"no-python", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &given.ignored, "", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    int code = EXIT_USAGE;

    job_open_streams();

    const char *advice, *foreign = foreign_option(entries, argv, &advice);

    if (foreign)
        return cli_usage("run", "unknown option %s; %s", foreign, advice);
    if (cli_parse("run", "[--] PROGRAM [ARGUMENTS…]", summary, description, entries, true, &argc,
                  &argv))
        code = run_job(&given, argv);
    g_free(given.ranks);
    g_free(given.backend);
    g_free(given.log_dir);
    g_free(given.wait);
    g_free(given.grace);
    g_free(given.stopped);
    g_free(given.color);
    g_free(given.nodes);
    return code;
}
