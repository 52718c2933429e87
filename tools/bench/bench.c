/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti bench`: the command line, the ranks, the cells one after the other.
 *
 * Without a launcher's variables the process is no rank. It then becomes `tutti run`, with itself as the
 * program; the ranks get the same command line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli.h"
#include "verbs.h"

static const char summary[] =
    "Measures what calls take on this machine, and checks their results. Starts its own ranks, or\n"
    "measures with those of a launcher: under tutti run, torchrun, mpirun or srun every process is "
    "a\n"
    "rank, and rank 0 prints. Without OPERATION it measures all_reduce.\n\n"
    "Operations:\n";

static const char description[] =
    "p50, p95 and p99 are percentiles of samples. A sample is the time of a call on the slowest "
    "rank:\n"
    "of one call where that takes 40 us or more, else the mean of several. A cell is measured "
    "until the\n"
    "median is known to 2 %, or --seconds are over; the median then has a '?'. Before each call "
    "of\n"
    "more than 512 bytes every rank writes its input, untimed; --hot leaves that out. Before each "
    "call\n"
    "with a root there is a barrier, untimed.\n\n"
    "algbw is the bytes of the longer side divided by the median; busbw is what the links carry of "
    "that,\n"
    "as in nccl-tests. cpu% is the CPU time of a rank. link: whether CPUs of ranks 0 and 1 share a "
    "cache\n"
    "(near), by the time of a flag between them (far: 110 ns and more).\n\n"
    "Sizes take the suffixes K, M and G (multiples of 1024). A message is of SIZE; so is a vector, "
    "or\n"
    "each block.\n\n"
    "Exit code: 0; 1 when a result was wrong or a call failed; 2 for a wrong command line.\n\n"
    "Examples:\n"
    "  tutti bench\n"
    "  tutti bench -n 4 --backend tcp all_reduce barrier\n"
    "  tutti bench ping_pong burst --bytes 8,64K --async\n"
    "  tutti bench --memory allocated --from 32K --to 64M --factor 4 --plot all_reduce.svg\n"
    "  tutti bench all --save before.json    # then, with another version:\n"
    "  tutti bench all --against before.json\n"
    "  mpirun -n 2 tutti bench --backend mpi --csv\n";

enum { RANKS_MAX = 4096, SIZES_MAX = 64, OPERATIONS_MAX = 16 };

/* The fields that GOption fills in. `started`: a rank that this command has started, whose stderr is a terminal in
 * the end ("progress") or not. */
struct given {
    char *started, *ranks, *backend, *bytes, *from, *to, *factor, *dtype, *op, *memory, *seconds,
        *plot, *save, *against;
    gboolean async, hot, json, csv;
};

struct named {
    const char *name;
    int64_t value;
};

static const struct named dtypes[] = {
#define DTYPE(NAME, name, code, bits) {name, TUTTI_##NAME},
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
        {NULL, 0}};

static const struct named ops[] = {
#define OP(NAME, name, number) {name, number},
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
        {NULL, 0}};

/* ---- the command line --------------------------------------------------------------------------- */

/* `what` with its nearest match. */
static int unknown(const char *what, const char *word, const char *const *names)
{
    const char *nearest = cli_nearest(word, names);
    g_autofree char *all = g_strjoinv(", ", (char **)names);

    if (nearest)
        return cli_usage("bench", "unknown %s '%s'; did you mean '%s'?", what, word, nearest);
    return cli_usage("bench", "unknown %s '%s'; there are %s", what, word, all);
}

static int find_named(const char *what, const char *word, const struct named *table,
                      int64_t *ret_value)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (int i = 0; table[i].name; i++) {
        if (strcmp(table[i].name, word) == 0) {
            *ret_value = table[i].value;
            return EXIT_OK;
        }
        g_ptr_array_add(names, (char *)table[i].name);
    }
    g_ptr_array_add(names, NULL);
    return unknown(what, word, (const char *const *)names->pdata);
}

static int find_operations(char *const *words, struct bench_plan *plan)
{
    static const struct bench_operation *found[OPERATIONS_MAX];
    const char *names[OPERATIONS_MAX + 1] = {"all"};
    int count = 1;

    for (const struct bench_operation *o = bench_operations; o->name; o++)
        names[count++] = o->name;
    plan->operations = found;
    if (!*words)
        found[plan->operation_count++] = bench_operations;
    for (; *words; words++) {
        const int before = plan->operation_count;

        for (const struct bench_operation *o = bench_operations; o->name; o++)
            if ((strcmp(*words, o->name) == 0 || strcmp(*words, "all") == 0) &&
                plan->operation_count < OPERATIONS_MAX)
                found[plan->operation_count++] = o;
        if (plan->operation_count == before)
            return unknown("operation", *words, names);
    }
    return EXIT_OK;
}

static int add_size(struct bench_plan *plan, const char *option, const char *text)
{
    uint64_t bytes;

    if (!cli_parse_size(text, &bytes))
        return cli_usage("bench", "%s '%s' is not a size such as 4096, 64K or 1M", option, text);
    if (plan->size_count == SIZES_MAX)
        return cli_usage("bench", "more than %d sizes", SIZES_MAX);
    plan->bytes[plan->size_count++] = bytes;
    return EXIT_OK;
}

static int list_sizes(const char *text, struct bench_plan *plan)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    int code = EXIT_OK;

    for (char **word = words; *word && !code; word++)
        code = add_size(plan, "--bytes", *word);
    return code;
}

/* From 8 bytes to 16 MiB by a factor of 8. */
static int sweep_sizes(const struct given *given, struct bench_plan *plan)
{
    uint64_t from = 8, to = 16 << 20, factor = 8;

    if (given->from && !cli_parse_size(given->from, &from))
        return cli_usage("bench", "--from '%s' is not a size such as 4096, 64K or 1M", given->from);
    if (given->to && !cli_parse_size(given->to, &to))
        return cli_usage("bench", "--to '%s' is not a size such as 4096, 64K or 1M", given->to);
    if (given->factor && (!cli_parse_size(given->factor, &factor) || factor < 2))
        return cli_usage("bench", "--factor '%s' is not a whole number of at least 2",
                         given->factor);
    if (!from || from > to)
        return cli_usage("bench", "--from must be more than 0 and at most --to");
    for (uint64_t bytes = from; bytes <= to && plan->size_count < SIZES_MAX; bytes *= factor) {
        plan->bytes[plan->size_count++] = bytes;
        if (bytes > to / factor)
            break;
    }
    return EXIT_OK;
}

/* Whole elements; an op that the type takes. */
static int check_type(const struct bench_plan *plan)
{
    const uint64_t element = tutti_dtype_size(plan->dtype);

    if (!bench_data_knows(plan->dtype))
        return cli_usage("bench",
                         "--dtype %s is not measured: use an integer, f16, bf16, f32 or f64",
                         tutti_dtype_name(plan->dtype));
    for (int i = 0; i < plan->size_count; i++)
        if (plan->bytes[i] < element || plan->bytes[i] % element)
            return cli_usage("bench",
                             "%" G_GUINT64_FORMAT " bytes are no whole number of elements of %s, "
                             "which have %" G_GUINT64_FORMAT,
                             plan->bytes[i], tutti_dtype_name(plan->dtype), element);
    for (int i = 0; i < plan->operation_count; i++)
        if (plan->operations[i]->reduces && !tutti_reduce_op_meaning(plan->op, plan->dtype))
            return cli_usage("bench", "--op %s does not take elements of %s",
                             tutti_reduce_op_name(plan->op), tutti_dtype_name(plan->dtype));
    return EXIT_OK;
}

static int make_plan(const struct given *given, char *const *words, struct bench_plan *plan)
{
    int64_t dtype = TUTTI_F32, op = TUTTI_SUM;
    char *end;
    int code = find_operations(words, plan);

    if (!code)
        code = given->bytes ? list_sizes(given->bytes, plan) : sweep_sizes(given, plan);
    if (!code && given->bytes && (given->from || given->to || given->factor))
        code =
            cli_usage("bench", "--bytes lists sizes, --from, --to and --factor make them: use one");
    if (!code && given->dtype)
        code = find_named("dtype", given->dtype, dtypes, &dtype);
    if (!code && given->op)
        code = find_named("op", given->op, ops, &op);
    if (!code && op == TUTTI_PREMUL_SUM)
        code = cli_usage("bench", "--op premul_sum is not measured: its factor is the program's");
    plan->dtype = (tutti_dtype)dtype;
    plan->op = (tutti_reduce_op)op;
    plan->async = given->async;
    plan->hot = given->hot;
    for (int i = 0; !code && given->memory; i++) {
        if (!bench_memories[i])
            return unknown("memory", given->memory, bench_memories);
        plan->memory = (enum bench_memory)i;
        if (strcmp(bench_memories[i], given->memory) == 0)
            break;
    }
    plan->seconds = given->seconds ? g_ascii_strtod(given->seconds, &end) : 0.5;
    if (!code && given->seconds && (end == given->seconds || *end || !(plan->seconds > 0)))
        code = cli_usage("bench", "--seconds '%s' is not a number of seconds", given->seconds);
    return code ? code : check_type(plan);
}

/* ---- the ranks ---------------------------------------------------------------------------------- */

/* The variable by which a launcher says that this process is a rank; NULL: there is none. */
static const char *launched_by(void)
{
    static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_STEP_NUM_TASKS"};

    for (size_t i = 0; i < G_N_ELEMENTS(variables); i++)
        if (getenv(variables[i]))
            return variables[i];
    return NULL;
}

static void find_usable_cpus(const char *section, const char *name, const char *value, void *user)
{
    if (strcmp(section, "cpu") == 0 && strcmp(name, "usable") == 0)
        cli_parse_int(value, 1, RANKS_MAX, user);
}

/* Becomes `tutti run`, whose ranks get this command line. */
static int start_ranks(const struct given *given, const char *ranks, int argc, char **argv)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new();
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    const char *const run[] = {"run", "--no-prefix", "-n", ranks};

    for (size_t i = 0; i < G_N_ELEMENTS(run); i++)
        g_ptr_array_add(words, (char *)run[i]);
    if (given->backend) {
        g_ptr_array_add(words, (char *)"--backend");
        g_ptr_array_add(words, given->backend);
    }
    g_ptr_array_add(words, (char *)"--");
    g_ptr_array_add(words, self);
    for (int i = 0; i < argc; i++)
        g_ptr_array_add(words, argv[i]);
    g_ptr_array_add(words,
                    (char *)(isatty(STDERR_FILENO) ? "--started=progress" : "--started=quiet"));
    g_ptr_array_add(words, NULL);
    return run_main((int)words->len - 1, (char **)words->pdata);
}

static tutti_status make_buffer(struct bench_rank *rank, int which, void **ret_buffer)
{
    void *memory =
        mmap(NULL, rank->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tutti_status status = TUTTI_OK;

    if (memory == MAP_FAILED)
        return TUTTI_ERR_NO_MEMORY;
    if (rank->plan->memory == MEMORY_REGISTERED)
        status = tutti_memory_register(rank->world, memory, rank->room, &rank->memories[which]);
    if (rank->plan->memory == MEMORY_ALLOCATED) {
        munmap(memory, rank->room);
        status = tutti_memory_allocate(rank->world, rank->room, &rank->memories[which]);
        memory = tutti_memory_address(rank->memories[which]);
    }
    *ret_buffer = memory;
    return status;
}

static tutti_status open_rank(struct bench_rank *rank, const char *backend)
{
    const tutti_init_options options = {.struct_size = sizeof options, .backend = backend};
    tutti_status status = tutti_init(&options, &rank->world);

    if (status)
        return status;
    rank->rank = tutti_group_rank(rank->world);
    rank->size = tutti_group_size(rank->world);
    for (int i = 0; i < rank->plan->size_count; i++)
        rank->room = MAX(rank->room, rank->plan->bytes[i]);
    rank->room *= (uint64_t)rank->size;
    status = make_buffer(rank, 0, &rank->in);
    if (!status)
        status = make_buffer(rank, 1, &rank->out);
    if (!status)
        rank->link = bench_link_open(rank->world, rank->rank, rank->size);
    return status;
}

/* 0: it is not measured on so few ranks. */
static bool is_possible(const struct bench_rank *rank, const struct bench_operation *operation)
{
    if (!operation->is_message || rank->size > 1)
        return true;
    if (rank->rank == 0)
        cli_say("bench", "%s needs two ranks; it is left out", operation->name);
    return false;
}

static tutti_status measure_all(struct bench_rank *rank, struct bench_report *report)
{
    const struct bench_plan *plan = rank->plan;
    tutti_status status = TUTTI_OK;

    for (int o = 0; o < plan->operation_count && !status; o++) {
        const struct bench_operation *operation = plan->operations[o];
        const bool sized = operation->moved(1, 1) > 0;

        for (int i = 0; i < (sized ? plan->size_count : 1) && !status; i++) {
            struct bench_cell cell;

            if (!is_possible(rank, operation))
                break;
            if (rank->rank == 0)
                bench_report_progress(report, operation, sized ? plan->bytes[i] : 0);
            status = bench_measure(rank, operation, sized ? plan->bytes[i] : 0, &cell);
            if (!status && rank->rank == 0)
                bench_report_cell(report, &cell);
            report->wrong += status ? 0 : cell.wrong;
        }
    }
    return status;
}

static int be_rank(const struct given *given, const struct bench_plan *plan,
                   struct bench_report *report)
{
    struct bench_rank rank = {.plan = plan};
    bool written = true;

    report->rank = &rank;
    tutti_status status = open_rank(&rank, given->backend);
    if (status)
        return cli_say_failure("bench", status);
    report->progress &= rank.rank == 0;
    if (rank.rank == 0)
        bench_report_begin(report);
    status = measure_all(&rank, report);
    if (status)
        return cli_say_failure("bench", status);
    if (rank.rank == 0) {
        bench_report_end(report);
        written = (!given->save || bench_report_save(report, given->save)) &&
                  (!given->plot || bench_plot(report, given->plot));
    }
    bench_link_close(rank.link);
    status = tutti_group_destroy(rank.world); /* frees registered memory, too */
    if (status)
        return cli_say_failure("bench", status);
    return written && !report->wrong ? EXIT_OK : EXIT_FAILED;
}

/* What would be found too late otherwise: when all has been measured. */
static int check_files(const struct given *given, struct bench_report *report)
{
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");

    if (given->json && given->csv)
        return cli_usage("bench", "--json or --csv, not both");
    if (given->plot && !gnuplot)
        return cli_usage("bench", "--plot needs gnuplot (Debian: gnuplot-nox)");
    if (given->against) {
        report->against_path = given->against;
        report->against = bench_report_load(given->against);
        if (!report->against)
            return EXIT_FAILED;
    }
    report->format = given->json ? FORMAT_JSON : given->csv ? FORMAT_CSV : FORMAT_TABLE;
    return EXIT_OK;
}

static int bench(const struct given *given, char *const *words, int argc, char **argv)
{
    uint64_t sizes[SIZES_MAX];
    struct bench_plan plan = {.bytes = sizes};
    struct bench_report report = {.progress = given->started
                                                  ? strcmp(given->started, "progress") == 0
                                                  : isatty(STDERR_FILENO)};
    const char *launched = launched_by();
    int ranks = 2;
    int code = make_plan(given, words, &plan);

    if (!code)
        code = check_files(given, &report);
    tutti_info_list(find_usable_cpus, &ranks);
    ranks = MAX(ranks, 2);
    if (!code && given->ranks && launched && !given->started)
        code = cli_usage("bench",
                         "-n is for ranks that tutti bench starts itself; %s says that this "
                         "process is a launcher's rank",
                         launched);
    if (!code && given->ranks && !cli_parse_int(given->ranks, 1, RANKS_MAX, &ranks))
        code =
            cli_usage("bench", "-n '%s': the number of ranks is 1 to %d", given->ranks, RANKS_MAX);
    if (!code && launched) {
        report.cells = g_array_new(FALSE, FALSE, sizeof(struct bench_cell));
        code = be_rank(given, &plan, &report);
        g_array_unref(report.cells);
    } else if (!code) {
        g_autofree char *number = g_strdup_printf("%d", ranks);

        code = start_ranks(given, number, argc, argv);
    }
    if (report.against)
        json_node_unref(report.against);
    return code;
}

static char *operations_text(void)
{
    GString *text = g_string_new(summary);

    for (const struct bench_operation *o = bench_operations; o->name; o++)
        g_string_append_printf(text, "  %-15s %s\n", o->name, o->what);
    g_string_append(text, "  all             all of these");
    return g_string_free(text, FALSE);
}

int bench_main(int argc, char **argv)
{
    struct given given = {.ranks = NULL};
    const GOptionEntry entries[] = {
        {"ranks", 'n', 0, G_OPTION_ARG_STRING, &given.ranks,
         "Number of ranks to start (default: one per usable CPU, at least 2)", "N"},
        {"backend", 0, 0, G_OPTION_ARG_STRING, &given.backend,
         "Sets TUTTI_BACKEND for the ranks: auto, shm, tcp, …", "NAME"},
        {"bytes", 'b', 0, G_OPTION_ARG_STRING, &given.bytes, "Sizes: 8,4K,1M", "SIZE,…"},
        {"from", 0, 0, G_OPTION_ARG_STRING, &given.from, "The first size (default 8)", "SIZE"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &given.to, "The largest size (default 16M)", "SIZE"},
        {"factor", 0, 0, G_OPTION_ARG_STRING, &given.factor,
         "From one size to the next (default 8)", "N"},
        {"dtype", 0, 0, G_OPTION_ARG_STRING, &given.dtype, "Type of the elements (default f32)",
         "TYPE"},
        {"op", 0, 0, G_OPTION_ARG_STRING, &given.op, "Reduction (default sum)", "OP"},
        {"memory", 0, 0, G_OPTION_ARG_STRING, &given.memory,
         "Where tensors lie: ordinary, allocated (tutti_memory_allocate), registered "
         "(tutti_memory_register)",
         "KIND"},
        {"async", 0, 0, G_OPTION_ARG_NONE, &given.async,
         "Start each call as a work, and wait for it", NULL},
        {"hot", 0, 0, G_OPTION_ARG_NONE, &given.hot, "Do not write inputs between calls", NULL},
        {"seconds", 0, 0, G_OPTION_ARG_STRING, &given.seconds,
         "Time for a cell whose median does not settle (default 0.5)", "S"},
        {"csv", 0, 0, G_OPTION_ARG_NONE, &given.csv, "Print comma-separated values", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &given.json, "Print one JSON document", NULL},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &given.plot, "Draw the medians, by gnuplot",
         "FILE.svg"},
        {"save", 0, 0, G_OPTION_ARG_FILENAME, &given.save, "Write the JSON document to FILE, too",
         "FILE"},
        {"against", 0, 0, G_OPTION_ARG_FILENAME, &given.against,
         "Compare with what --save has written", "FILE"},
        {"started", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &given.started, "", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    g_auto(GStrv) all = g_strdupv(argv); /* for the ranks */
    g_autofree char *text = operations_text();
    const int count = argc;
    int code = EXIT_USAGE;

    if (cli_parse("bench", "[OPERATION…]", text, description, entries, false, &argc, &argv))
        code = bench(&given, argv, count, all);
    g_free(given.started);
    g_free(given.ranks);
    g_free(given.backend);
    g_free(given.bytes);
    g_free(given.from);
    g_free(given.to);
    g_free(given.factor);
    g_free(given.dtype);
    g_free(given.op);
    g_free(given.memory);
    g_free(given.seconds);
    g_free(given.plot);
    g_free(given.save);
    g_free(given.against);
    return code;
}
