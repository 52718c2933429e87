/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti bench`: reads the command line, and is a rank of a job or starts one of its own.
 *
 * A process that a launcher has made a rank stays one. Any other starts this command again as ranks,
 * by the launcher of `tutti run`, with the same words and --as-rank.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/member.h"
#include "bench/operation.h"
#include "bench/settings.h"
#include "cli.h"
#include "probe.h"
#include "run/job.h"
#include "verbs.h"

static const char summary[] =
    "Measures operations between ranks: how long a call takes and how many bytes it moves. Starts\n"
    "its own ranks on this host; under torchrun, mpirun, srun or `tutti run` their processes are\n"
    "the ranks. Results are checked. An OPERATION is `all` or some of: ";

static const char description[] =
    "Messages go between rank 0 and rank 1: ping_pong is one to the other rank and one back, and "
    "its\n"
    "time is half of that; both_ways is one each way at the same time; burst is many in flight at\n"
    "once, and its time is that of one.\n\n"
    "Without operations it measures all_reduce, and without sizes it goes from 8 bytes to 16 MiB.\n"
    "A cell is measured until its median is known within 2 %, at most for the time of --time.\n"
    "Percentiles are those of samples, and a sample is the mean time of some calls on the slowest\n"
    "rank. algbw and busbw are those of nccl-tests. The man page says the rest.\n\n"
    "Exit code: 0 when all was measured; 1 for a wrong result, a rank that failed, or a cell that\n"
    "--fail-above does not allow; 2 for a wrong command line.\n\n"
    "Examples:\n"
    "  tutti bench\n"
    "  tutti bench all_reduce broadcast -n 4 --sizes 8,4K,1M\n"
    "  tutti bench ping_pong burst --from 1 --to 4M --factor 4 --async\n"
    "  tutti bench all_reduce --save before.json\n"
    "  tutti bench all_reduce --against before.json --fail-above 10\n"
    "  tutti bench --tune -n 4\n"
    "  tutti bench all --dtype bf16 --backend tcp --plot bench.svg\n"
    "  mpirun -n 4 tutti bench all_to_all --csv\n";

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* The variable by which a launcher has made this process a rank; NULL: none has. */
static const char *launcher_variable(void)
{
    static const char *const names[] = {"RANK",         "WORLD_SIZE", "TUTTI_BOOTSTRAP",
                                        "PMI_RANK",     "PMIX_RANK",  "OMPI_COMM_WORLD_SIZE",
                                        "FLUX_JOB_SIZE"};
    /* A shell in an allocation of Slurm is no rank, and knows the tasks of the job all the same. */
    const char *slurm = getenv("SLURM_STEP_NUM_TASKS");

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (is_set(names[i]))
            return names[i];
    return slurm && strtol(slurm, NULL, 10) > 1 ? "SLURM_STEP_NUM_TASKS" : NULL;
}

enum { STANDARD_RANKS = 2 };

/* `words`: the whole command line of this verb, from its name on. */
static int start_ranks(const struct bench_given *given, const struct bench_settings *settings,
                       char *const *words)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    char as_rank[] = "--as-rank";
    struct launch_options options = {.ranks = STANDARD_RANKS,
                                     .wait_s = 1,
                                     .grace_s = 5,
                                     .stopped_s = 30,
                                     .backend = settings->backend,
                                     .console = true,
                                     .is_verb = true,
                                     .program = self};

    if (!job_parse_ranks("bench", given->ranks, &options.ranks) ||
        !settings_fit(settings, options.ranks) || !job_find_mpi("bench", &options))
        return EXIT_USAGE;
    if (!settings_check_files(settings) || !probe_backend("bench", settings->backend))
        return EXIT_FAILED;
    if (!self) {
        cli_say("bench", "cannot read /proc/self/exe, which is what the ranks are to run");
        return EXIT_FAILED;
    }
    g_ptr_array_add(argv, self);
    g_ptr_array_add(argv, *words++);
    g_ptr_array_add(argv, as_rank);
    for (; *words; words++)
        g_ptr_array_add(argv, *words);
    g_ptr_array_add(argv, NULL);
    options.argv = (char **)argv->pdata;
    return job_run(&options);
}

static int run(const struct bench_given *given, const struct bench_settings *settings,
               char *const *words)
{
    const char *variable = launcher_variable();

    if (given->as_rank)
        return member_run(settings);
    if (!variable)
        return start_ranks(given, settings, words);
    if (given->ranks)
        return cli_usage("bench",
                         "-n %s: %s=%s says that this process is a rank already; leave -n out, or "
                         "unset %s to start ranks here",
                         given->ranks, variable, getenv(variable), variable);
    return member_run(settings);
}

static void clear(struct bench_given *given)
{
    char *texts[] = {given->ranks,      given->backend, given->sizes, given->from,   given->to,
                     given->factor,     given->dtype,   given->op,    given->memory, given->root,
                     given->window,     given->time,    given->plot,  given->save,   given->against,
                     given->fail_above, given->tune};

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
}

char *bench_operations(const char *between)
{
    return operation_names(between);
}

/* GOption has no option with a value that may be left out. */
static void allow_tune_alone(int argc, char **argv)
{
    static char alone[] = "--tune=";

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--tune") == 0)
            argv[i] = alone;
}

int bench_main(int argc, char **argv)
{
    struct bench_given given = {0};
    const GOptionEntry entries[] = {
        {"ranks", 'n', 0, G_OPTION_ARG_STRING, &given.ranks,
         "Number of ranks to start, or auto: one per usable CPU (default 2)", "N"},
        {"backend", 0, 0, G_OPTION_ARG_STRING, &given.backend,
         "Backend (default: TUTTI_BACKEND, else auto)", "NAME"},
        {"sizes", 0, 0, G_OPTION_ARG_STRING, &given.sizes, "Sizes, such as 8,4K,1M", "SIZE,…"},
        {"from", 0, 0, G_OPTION_ARG_STRING, &given.from, "Smallest size (default 8)", "SIZE"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &given.to, "Largest size (default 16M)", "SIZE"},
        {"factor", 0, 0, G_OPTION_ARG_STRING, &given.factor,
         "Each size is so many times the one before (default 8)", "N"},
        {"dtype", 0, 0, G_OPTION_ARG_STRING, &given.dtype,
         "Type of the elements, such as bf16 (default f32)", "TYPE"},
        {"op", 0, 0, G_OPTION_ARG_STRING, &given.op, "Reduction, such as max (default sum)", "OP"},
        {"memory", 0, 0, G_OPTION_ARG_STRING, &given.memory,
         "Memory of the tensors: ordinary (default), or registered memory: allocated by\n"
         "                           tutti_memory_allocate(), or registered by\n"
         "                           tutti_memory_register()",
         "KIND"},
        {"touched", 0, 0, G_OPTION_ARG_NONE, &given.touched,
         "Write the input before each call (default: above 512 bytes)", NULL},
        {"hot", 0, 0, G_OPTION_ARG_NONE, &given.hot, "Leave the input alone between calls", NULL},
        {"root", 0, 0, G_OPTION_ARG_STRING, &given.root,
         "Root (default 0), or the rank that rank 0 exchanges messages with (default 1)", "R"},
        {"async", 0, 0, G_OPTION_ARG_NONE, &given.async,
         "Start each operation and wait for its work, instead of blocking calls", NULL},
        {"window", 0, 0, G_OPTION_ARG_STRING, &given.window,
         "Messages of a burst in flight at once (default 64, and at most 64 MiB)", "N"},
        {"time", 0, 0, G_OPTION_ARG_STRING, &given.time,
         "Seconds that a cell may take at most (default 2)", "S"},
        {"no-check", 0, 0, G_OPTION_ARG_NONE, &given.no_check, "Do not check the results", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &given.json, "Print one JSON document", NULL},
        {"csv", 0, 0, G_OPTION_ARG_NONE, &given.csv, "Print comma-separated values", NULL},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &given.plot,
         "Draw times and bandwidths by gnuplot, as SVG", "FILE"},
        {"save", 0, 0, G_OPTION_ARG_FILENAME, &given.save, "Write the results to FILE as JSON",
         "FILE"},
        {"against", 0, 0, G_OPTION_ARG_FILENAME, &given.against,
         "Compare with the results that --save wrote", "FILE"},
        {"fail-above", 0, 0, G_OPTION_ARG_STRING, &given.fail_above,
         "Exit with 1 if a cell is slower than in that file by more than so many percent",
         "PERCENT"},
        {"tune", 0, 0, G_OPTION_ARG_FILENAME, &given.tune,
         "Measure where one algorithm overtakes another,\n"
         "                           and write a tuning file. Without FILE, the one\n"
         "                           that tutti_init() reads",
         "[FILE]"},
        {"as-rank", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &given.as_rank, "", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    g_autofree char *names = operation_names(", ");
    g_autofree char *whole_summary = g_strdup_printf("%s%s.", summary, names);
    g_auto(GStrv) words = g_strdupv(argv);
    struct bench_settings settings = {0};
    int code = EXIT_USAGE;

    job_open_streams();
    allow_tune_alone(argc, argv);
    if (cli_parse("bench", "[OPERATION …]", whole_summary, description, entries, false, &argc,
                  &argv) &&
        settings_parse(&given, argc, argv, &settings))
        code = run(&given, &settings, words);
    settings_clear(&settings);
    clear(&given);
    return code;
}
