/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ranks go through the same cells in the same order. What may stop one of them alone, such as a
 * file that cannot be written or memory that is not there, is agreed on first, so that no rank waits
 * for one that has gone.
 */
#include "bench/member.h"

#include <sched.h>
#include <string.h>

#include <tutti/tutti.h>

#include "bench/link.h"
#include "bench/measure.h"
#include "bench/operation.h"
#include "bench/report.h"
#include "bench/tune.h"
#include "bench/values.h"
#include "cli.h"

enum { WINDOW_BYTES = 64 << 20 };

struct member {
    const struct bench_settings *settings;
    tutti_group *world;
    int rank, size, peer; /* peer: of rank 0, in messages and for the link */
    int local_size;
    tutti_reduce_op op;
    struct bench_facts facts;
    struct bench_report *report; /* rank 0 alone */
    struct bench_link *link;
    bool wrong;
};

/* ---- agreeing ---- */

static tutti_status agree(const struct member *member, bool *fine)
{
    double refusals = !*fine;
    const tutti_status status = measure_over_ranks(member->world, &refusals, 1, TUTTI_MAX);

    *fine = refusals == 0;
    return status;
}

static int say_failure(const struct member *member, const char *what)
{
    cli_say("bench", "rank %d of %d: %s: %s", member->rank, member->size, what, cli_last_error());
    return EXIT_FAILED;
}

/* ---- facts ---- */

static void take_fact(const char *section, const char *name, const char *value, void *user)
{
    struct bench_facts *facts = user;

    if (strcmp(section, "cpu") == 0 && strcmp(name, "usable") == 0)
        cli_parse_int(value, 1, G_MAXINT, &facts->usable_cpus);
}

/* "AMD EPYC 9R14", as Linux calls it; g_free(). */
static char *cpu_name(void)
{
    g_autofree char *text = NULL;
    const char *at = g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)
                         ? strstr(text, "\nmodel name")
                         : NULL;

    at = at ? strchr(at, ':') : NULL;
    return at ? g_strstrip(g_strndup(at + 1, strcspn(at + 1, "\n"))) : g_strdup("unknown CPU");
}

static void find_facts(struct member *member)
{
    struct bench_facts *facts = &member->facts;
    tutti_group_info info = {.struct_size = sizeof info};
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();

    tutti_group_status(member->world, &info);
    member->local_size = info.local_size;
    *facts = (struct bench_facts){.version = g_strdup(tutti_version()),
                                  .host = g_strdup(g_get_host_name()),
                                  .cpu = cpu_name(),
                                  .date = g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ"),
                                  .backend = g_strdup(tutti_group_backend(member->world)),
                                  .ranks = member->size,
                                  .hosts = info.hosts,
                                  .usable_cpus = 1,
                                  .time_s = member->settings->time_s};
    tutti_info_list(take_fact, facts);
}

/* The usable CPUs of all ranks of a host together: a launcher may have given each its own. A quota is
 * one for all of them. */
static tutti_status count_cpus(struct member *member)
{
    cpu_set_t set;
    uint64_t words[sizeof set / sizeof(uint64_t)];
    int64_t shape;
    const tutti_tensor tensor =
        tutti_tensor_1d(words, TUTTI_U64, &shape, (int64_t)G_N_ELEMENTS(words));
    tutti_status status;
    bool limited;

    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    limited = member->facts.usable_cpus < CPU_COUNT(&set);
    memcpy(words, &set, sizeof set);
    status = tutti_all_reduce(member->world, &tensor, TUTTI_BOR, NULL, NULL);
    memcpy(&set, words, sizeof set);
    if (!limited && member->facts.hosts == 1)
        member->facts.usable_cpus = CPU_COUNT(&set);
    return status;
}

static void clear_facts(struct bench_facts *facts)
{
    g_free(facts->version);
    g_free(facts->host);
    g_free(facts->cpu);
    g_free(facts->date);
    g_free(facts->backend);
}

/* ---- one cell ---- */

/* Fewer messages where they are long: each has memory of its own. */
static int window_for(const struct bench_settings *settings, uint64_t bytes)
{
    return (int)CLAMP(WINDOW_BYTES / bytes, 1, (uint64_t)settings->window);
}

static struct bench_call call_for(const struct member *member,
                                  const struct bench_operation *operation, uint64_t bytes)
{
    const struct bench_settings *settings = member->settings;
    const uint64_t element = tutti_dtype_size(settings->dtype);
    const bool moves = operation->traits & TUTTI_OPERATION_MOVES;
    const int root = operation->is_message ? member->peer : MAX(settings->root, 0);

    return (struct bench_call){.world = member->world,
                               .rank = member->rank,
                               .size = member->size,
                               .operation = operation,
                               .dtype = settings->dtype,
                               .op = member->op,
                               .memory = settings->memory,
                               .async = settings->async || operation->windowed,
                               .root = root,
                               .count = moves ? (int64_t)(bytes / element) : 0,
                               .window = operation->windowed ? window_for(settings, bytes) : 1};
}

static bool is_touched(const struct bench_settings *settings, const struct bench_call *call,
                       int64_t bytes)
{
    return call->operation->traits & TUTTI_OPERATION_MOVES &&
           settings_touch(settings, (uint64_t)bytes);
}

static struct bench_result result_for(const struct bench_settings *settings,
                                      const struct bench_call *call)
{
    const bool moves = call->operation->traits & TUTTI_OPERATION_MOVES;
    const bool reduces = call->operation->traits & TUTTI_OPERATION_REDUCES;
    const int64_t bytes = call->count * (int64_t)tutti_dtype_size(call->dtype);

    return (struct bench_result){.operation = call->operation->name,
                                 .dtype = moves ? settings->dtype_name : NULL,
                                 .op = reduces ? settings->op_name : NULL,
                                 .memory = bench_memory_names[settings->memory],
                                 .mode = is_touched(settings, call, bytes) ? "touched" : "hot",
                                 .bytes = bytes,
                                 .count = call->count,
                                 .window = call->window,
                                 .async = call->async,
                                 .wrong = -1};
}

/* One call with inputs whose result is known. Adds the wrong elements of all ranks; the first rank that has
 * one says which. */
static tutti_status check_results(struct member *member, struct bench_call *call,
                                  struct bench_result *result)
{
    struct values_wrong wrong = {0};
    tutti_status status;

    if (!member->settings->check || !values_are_exact(call))
        return TUTTI_OK;
    values_fill(call);
    status = tutti_barrier(member->world, NULL, NULL);
    if (!status)
        status = call_run(call);
    if (status)
        return status;
    values_check(call, &wrong);

    /* The largest of size - rank is that of the lowest rank. */
    double count = (double)wrong.count, first = wrong.count ? member->size - member->rank : 0;

    status = measure_over_ranks(member->world, &count, 1, TUTTI_SUM);
    if (!status)
        status = measure_over_ranks(member->world, &first, 1, TUTTI_MAX);
    if (status)
        return status;
    if (wrong.count && (int)first == member->size - member->rank && result->wrong <= 0)
        cli_say("bench",
                "rank %d: wrong result of %s, %lld bytes of %s%s%s: element %lld is %s "
                "instead of %s; wrong elements on this rank: %lld",
                member->rank, result->operation, (long long)result->bytes, result->dtype,
                result->op ? ", " : "", result->op ? result->op : "", (long long)wrong.first,
                wrong.got, wrong.expected, (long long)wrong.count);
    result->wrong = MAX(result->wrong, 0) + (gint64)count;
    member->wrong = member->wrong || count > 0;
    return TUTTI_OK;
}

static tutti_status find_way(struct bench_call *call, struct bench_result *result)
{
    const char *provider = NULL, *algorithm = NULL;
    const tutti_status status = call_served(call, &provider, &algorithm);

    if (provider) {
        g_autofree char *words = g_strdup_printf("%s %s", provider, algorithm);

        result->served = g_intern_string(words);
    }
    return status;
}

static void show_progress(const struct bench_result *so_far, void *user)
{
    const struct member *member = user;

    if (member->report)
        report_progress(member->report, so_far);
}

static tutti_status measure_open_cell(struct member *member, struct bench_cell *cell,
                                      struct bench_result *result)
{
    tutti_status status;

    show_progress(result, member);
    status = find_way(&cell->call, result);
    if (!status)
        status = check_results(member, &cell->call, result);
    if (!status)
        status = measure_cell(cell, result);
    if (!status)
        status = check_results(member, &cell->call, result);
    if (!status && member->report)
        report_row(member->report, result);
    return status;
}

/* The exit code. */
static int run_cell(struct member *member, const struct bench_operation *operation, uint64_t bytes)
{
    const struct bench_settings *settings = member->settings;
    struct bench_cell cell = {.call = call_for(member, operation, bytes),
                              .link = member->link,
                              .time_s = settings->time_s,
                              .progress = show_progress,
                              .user = member};
    struct bench_result result = result_for(settings, &cell.call);
    g_autofree char *what =
        g_strdup_printf("%s of %lld bytes", operation->name, (long long)result.bytes);
    bool fine = call_open(&cell.call);
    int code = EXIT_OK;

    cell.touched = is_touched(settings, &cell.call, result.bytes);
    if (!fine)
        cli_say("bench", "rank %d: no memory for %s%s%s", member->rank, what,
                settings->memory ? ": " : "", settings->memory ? cli_last_error() : "");
    if (agree(member, &fine) || (fine && measure_open_cell(member, &cell, &result)))
        code = say_failure(member, what);
    else if (!fine)
        code = EXIT_FAILED;
    call_close(&cell.call);
    return code;
}

/* ---- all of them ---- */

static int sizes_of(const struct member *member, const struct bench_operation *operation)
{
    return operation->traits & TUTTI_OPERATION_MOVES ? (int)member->settings->sizes->len : 1;
}

static int run_cells(struct member *member)
{
    const struct bench_settings *settings = member->settings;

    for (guint i = 0; i < settings->operations->len; i++) {
        const struct bench_operation *operation = settings->operations->pdata[i];

        for (int k = 0; k < sizes_of(member, operation); k++) {
            const int code =
                run_cell(member, operation, g_array_index(settings->sizes, uint64_t, k));

            if (code)
                return code;
        }
    }
    return member->wrong ? EXIT_FAILED : EXIT_OK;
}

static uint64_t available_bytes(void)
{
    g_autofree char *text = NULL;
    const char *at = g_file_get_contents("/proc/meminfo", &text, NULL, NULL)
                         ? strstr(text, "\nMemAvailable:")
                         : NULL;

    return at ? 1024 * g_ascii_strtoull(at + strlen("\nMemAvailable:"), NULL, 10) : G_MAXUINT64;
}

/* Bytes that the ranks of this host take. If there are several hosts, each rank counts as the one that
 * takes most, since the root may be on any. */
static double needed_bytes(const struct member *member, const struct bench_operation *operation,
                           uint64_t bytes)
{
    struct bench_call call = call_for(member, operation, bytes);
    double all = 0, most = 0;

    for (call.rank = 0; call.rank < call.size; call.rank++) {
        const double each = call_memory(&call, bytes);

        all += each;
        most = MAX(most, each);
    }
    return member->facts.hosts == 1 ? all : most * member->local_size;
}

/* Linux promises any amount of memory, and kills a process that uses more than there is. */
static bool has_memory(const struct member *member)
{
    const struct bench_settings *settings = member->settings;
    const uint64_t available = available_bytes();

    for (guint i = 0; i < settings->operations->len; i++)
        for (guint k = 0; k < settings->sizes->len; k++) {
            const struct bench_operation *operation = settings->operations->pdata[i];
            const uint64_t bytes = g_array_index(settings->sizes, uint64_t, k);
            const double needed = needed_bytes(member, operation, bytes);

            if (needed <= (double)available)
                continue;
            cli_say("bench",
                    "%s of %llu bytes takes %.1f GiB of memory in %d rank%s, and %.1f GiB are "
                    "available: take fewer ranks or smaller sizes",
                    operation->name, (unsigned long long)bytes, needed / (1 << 30),
                    member->local_size, member->local_size == 1 ? "" : "s",
                    (double)available / (1 << 30));
            return false;
        }
    return true;
}

/* The exit code. */
static int open_report(struct member *member)
{
    int cells = 0;

    for (guint i = 0; i < member->settings->operations->len; i++)
        cells += sizes_of(member, member->settings->operations->pdata[i]);
    if (!settings_fit(member->settings, member->size))
        return EXIT_USAGE;
    if (member->settings->tune)
        return settings_check_files(member->settings) ? EXIT_OK : EXIT_FAILED;
    if (settings_check_files(member->settings) && has_memory(member))
        member->report = report_new(member->settings, &member->facts, cells);
    return member->report ? EXIT_OK : EXIT_FAILED;
}

/* Both ranks of a probe need a CPU at the same time. */
static bool has_link(const struct member *member)
{
    return member->size > 1 && member->facts.hosts == 1 &&
           member->size <= member->facts.usable_cpus;
}

static tutti_status open_link(struct member *member)
{
    bool probed = has_link(member);
    tutti_status status = agree(member, &probed);
    double link_ns;

    if (!status && probed)
        status = link_open(member->world, member->peer, &member->link);
    if (!status)
        status = tutti_barrier(member->world, NULL, NULL);
    if (status)
        return status;
    link_ns = link_probe(member->link);
    status = measure_over_ranks(member->world, &link_ns, 1, TUTTI_MAX);
    if (!status && member->report)
        report_begin(member->report, link_ns, member->peer);
    return status;
}

static tutti_status make_op(struct member *member)
{
    char factor[16];
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(factor, member->settings->dtype, &shape, 1);

    member->op = member->settings->op;
    if (member->op != TUTTI_PREMUL_SUM)
        return TUTTI_OK;
    values_put(tensor.dtype, VALUES_PREMUL_FACTOR, factor);
    return tutti_reduce_op_premul(&tensor, &member->op);
}

static int run_in_world(struct member *member)
{
    double code;

    member->rank = tutti_group_rank(member->world);
    member->size = tutti_group_size(member->world);
    member->peer = member->settings->root > 0 ? member->settings->root : 1;
    find_facts(member);
    if (count_cpus(member))
        return say_failure(member, "the start");
    code = member->rank == 0 ? open_report(member) : EXIT_OK;
    if (measure_over_ranks(member->world, &code, 1, TUTTI_MAX))
        return say_failure(member, "the start");
    if (code > 0)
        return (int)code;
    if (make_op(member))
        return say_failure(member, "the reduction premul_sum");
    if (open_link(member))
        return say_failure(member, "the probe of the link");
    if (member->settings->tune)
        return tune_run(&(struct tune_job){.world = member->world,
                                           .rank = member->rank,
                                           .size = member->size,
                                           .settings = member->settings,
                                           .facts = &member->facts,
                                           .op = member->op,
                                           .link = member->link});
    return run_cells(member);
}

int member_run(const struct bench_settings *settings)
{
    struct member member = {.settings = settings};
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    int code;

    if (settings->tune && !tune_prepare())
        return EXIT_FAILED;
    options.backend = settings->backend;
    if (tutti_init(&options, &member.world))
        return cli_say_failure("bench", TUTTI_ERR_INTERNAL);
    code = run_in_world(&member);
    link_close(member.link);
    if (tutti_group_destroy(member.world) && code == EXIT_OK)
        code = say_failure(&member, "the end");
    tutti_reduce_op_free(member.op);
    if (member.report && code == EXIT_OK)
        code = report_end(member.report);
    report_free(member.report);
    clear_facts(&member.facts);
    return code;
}
