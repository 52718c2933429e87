/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/document.h"
#include "bench/link.h"
#include "bench/operation.h"
#include "bench/plot.h"
#include "cli.h"

enum { PROGRESS_US = 200000 /* between two lines of progress */, PROGRESS_WIDTH = 78 };

struct bench_report {
    const struct bench_settings *settings;
    const struct bench_facts *facts;
    struct bench_saved *saved; /* NULL: nothing is compared */
    GArray *results;           /* struct bench_result */
    int cells, name_width;
    bool terminal, shown; /* a line of progress stands there */
    gint64 shown_us;
};

struct bench_report *report_new(const struct bench_settings *settings,
                                const struct bench_facts *facts, int cells)
{
    struct bench_saved *saved = settings->against ? saved_open(settings->against) : NULL;
    struct bench_report *report;

    if (settings->against && !saved)
        return NULL;
    report = g_new(struct bench_report, 1);
    *report =
        (struct bench_report){.settings = settings,
                              .facts = facts,
                              .saved = saved,
                              .results = g_array_new(FALSE, FALSE, sizeof(struct bench_result)),
                              .cells = cells,
                              .name_width = (int)strlen("operation"),
                              .terminal = isatty(STDERR_FILENO) || getenv("TUTTI_RUN_TERMINAL")};
    for (guint i = 0; i < settings->operations->len; i++) {
        const struct bench_operation *operation = settings->operations->pdata[i];

        report->name_width = MAX(report->name_width, (int)strlen(operation->name));
    }
    return report;
}

void report_free(struct bench_report *report)
{
    if (!report)
        return;
    saved_free(report->saved);
    g_array_unref(report->results);
    g_free(report);
}

/* ---- progress ---- */

/* The launcher keeps a carriage return until it knows that no newline follows: hence two. */
static void hide_progress(struct bench_report *report)
{
    if (report->shown)
        fprintf(stderr, "%*s\r\r", PROGRESS_WIDTH, "");
    report->shown = false;
    fflush(stderr);
}

void report_progress(struct bench_report *report, const struct bench_result *so_far)
{
    const gint64 now_us = g_get_monotonic_time();
    char line[PROGRESS_WIDTH + 1];

    if (!report->terminal || (report->shown && now_us - report->shown_us < PROGRESS_US))
        return;
    if (so_far->p50_us > 0)
        g_snprintf(
            line, sizeof line, "%u/%d  %s, %lld bytes: %.4g us, +-%.1f %% after %lld samples",
            report->results->len + 1, report->cells, so_far->operation, (long long)so_far->bytes,
            so_far->p50_us, 50 * (so_far->high_us - so_far->low_us) / so_far->p50_us,
            (long long)so_far->samples);
    else
        g_snprintf(line, sizeof line, "%u/%d  %s, %lld bytes", report->results->len + 1,
                   report->cells, so_far->operation, (long long)so_far->bytes);
    fprintf(stderr, "%-*s\r", PROGRESS_WIDTH, line);
    fflush(stderr);
    report->shown = true;
    report->shown_us = now_us;
}

/* ---- the table ---- */

char *report_origin(const struct bench_facts *facts)
{
    return g_strdup_printf("tutti %s, %d rank%s on %d host%s over %s; %s, %s, %d usable CPU%s; %s",
                           facts->version, facts->ranks, facts->ranks == 1 ? "" : "s", facts->hosts,
                           facts->hosts == 1 ? "" : "s", facts->backend, facts->host, facts->cpu,
                           facts->usable_cpus, facts->usable_cpus == 1 ? "" : "s", facts->date);
}

static void print_table_head(const struct bench_report *report, double link_ns, int peer)
{
    const struct bench_settings *settings = report->settings;
    g_autofree char *origin = report_origin(report->facts);

    printf("# %s\n", origin);
    printf("# %s, %s, %s memory, %s calls; bytes of the vector, the message, or each block\n",
           settings->dtype_name, settings->op_name, bench_memory_names[settings->memory],
           settings->async ? "asynchronous" : "blocking");
    if (g_strcmp0(g_getenv("TUTTI_CHECKSUM"), "1") == 0)
        printf("# with checksums: every message carries one, and collectives go by messages\n");
    if (g_getenv("TUTTI_TLS") && g_strcmp0(g_getenv("TUTTI_TLS"), "0") != 0)
        printf("# with TUTTI_TLS=%s: connections are encrypted\n", g_getenv("TUTTI_TLS"));
    if (link_ns > 0)
        printf("# link between ranks 0 and %d: a hand-over takes %.0f ns, %s\n", peer, link_ns,
               link_ns > LINK_FAR_NS ? "far" : "near");
    printf(
        "# times in us: percentiles of samples, each the mean of some calls on the slowest rank\n"
        "# bandwidths in GB/s (10^9 bytes); cpu: CPU time of the ranks per wall time\n");
    printf("%-*s %10s %-7s %-4s %9s  %9s %9s %8s %8s %5s %6s", report->name_width, "operation",
           "bytes", "mode", "link", "p50", "p95", "p99", "algbw", "busbw", "cpu%", "wrong");
    puts(report->saved ? "    before  ratio" : "  served by");
}

/* Four digits. */
static const char *time_of(double us, char text[16])
{
    g_snprintf(text, 16, us < 10 ? "%.3f" : us < 100 ? "%.2f" : us < 1000 ? "%.1f" : "%.0f", us);
    return text;
}

static const char *bandwidth_of(double value, char text[16])
{
    g_snprintf(text, 16, value <= 0 ? "-" : value < 10 ? "%.3f" : "%.2f", value);
    return text;
}

static const char *words_of(enum bench_verdict verdict)
{
    switch (verdict) {
    case BENCH_FASTER:
        return "  faster";
    case BENCH_SLOWER:
        return "  slower";
    case BENCH_OTHER_LINK:
        return "  other link";
    default:
        return "";
    }
}

static void print_table_row(const struct bench_report *report, const struct bench_result *result)
{
    char p50[16], p95[16], p99[16], algbw[16], busbw[16], before[16], wrong[24] = "-";

    if (result->wrong >= 0)
        g_snprintf(wrong, sizeof wrong, "%lld", (long long)result->wrong);
    printf("%-*s %10lld %-7s %-4s %9s%s %9s %9s %8s %8s %5.0f %6s", report->name_width,
           result->operation, (long long)result->bytes, result->mode,
           result->link ? result->link : "-", time_of(result->p50_us, p50),
           result->settled ? " " : "*", time_of(result->p95_us, p95), time_of(result->p99_us, p99),
           bandwidth_of(result->algbw, algbw), bandwidth_of(result->busbw, busbw),
           result->cpu_percent, wrong);
    if (result->before_us > 0)
        printf(" %9s %6.2f%s", time_of(result->before_us, before), result->ratio,
               words_of(result->verdict));
    else if (report->saved)
        printf(" %9s %6s", "-", "-");
    else
        printf("  %s", result->served ? result->served : "-");
    putchar('\n');
}

void report_begin(struct bench_report *report, double link_ns, int peer)
{
    g_autofree char *difference =
        report->saved ? saved_difference(report->saved, report->facts) : NULL;

    if (difference)
        cli_say("bench", "%s is of another kind of run: %s", report->settings->against, difference);
    if (report->settings->format == BENCH_TABLE)
        print_table_head(report, link_ns, peer);
    else if (report->settings->format == BENCH_CSV)
        document_print_csv_head();
    fflush(stdout);
}

void report_row(struct bench_report *report, struct bench_result *result)
{
    hide_progress(report);
    if (report->saved)
        saved_compare(report->saved, result);
    g_array_append_val(report->results, *result);
    if (report->settings->format == BENCH_TABLE)
        print_table_row(report, result);
    else if (report->settings->format == BENCH_CSV)
        document_print_csv(result);
    fflush(stdout);
}

/* ---- the end ---- */

static const struct bench_result *result_of(const struct bench_report *report, guint i)
{
    return &g_array_index(report->results, struct bench_result, i);
}

static bool is_compared(const struct bench_result *result)
{
    return result->verdict != BENCH_NOT_COMPARED && result->verdict != BENCH_OTHER_LINK;
}

static void print_notes(const struct bench_report *report)
{
    int unsettled = 0, compared = 0, slower = 0, faster = 0;

    for (guint i = 0; i < report->results->len; i++) {
        const struct bench_result *result = result_of(report, i);

        unsettled += !result->settled;
        compared += is_compared(result);
        slower += result->verdict == BENCH_SLOWER;
        faster += result->verdict == BENCH_FASTER;
    }
    if (unsettled)
        printf("# * %d of %u medians did not settle within 2 %% in %g s (--time)\n", unsettled,
               report->results->len, report->facts->time_s);
    if (report->saved)
        printf(
            "# against %s: %d of %d cells are slower and %d faster, beyond 5 %% and the spread\n",
            report->settings->against, slower, compared, faster);
}

/* Says which cells got slower by more than --fail-above allows, or that it had nothing to judge. */
static bool is_too_slow(const struct bench_report *report)
{
    const double most = report->settings->fail_above;
    bool found = false, compared = false;

    for (guint i = 0; most >= 0 && i < report->results->len; i++) {
        const struct bench_result *result = result_of(report, i);

        compared = compared || is_compared(result);
        if (result->verdict != BENCH_SLOWER || result->ratio <= 1 + most / 100)
            continue;
        cli_say("bench",
                "%s of %lld bytes is %.0f %% slower than in %s: %.4g us instead of %.4g us",
                result->operation, (long long)result->bytes, 100 * (result->ratio - 1),
                report->settings->against, result->p50_us, result->before_us);
        found = true;
    }
    if (most >= 0 && !compared)
        cli_say("bench",
                "--fail-above: no cell could be compared, since %s has none of the same operation, "
                "size, mode and link; measure the same cells as there",
                report->settings->against);
    return found || (most >= 0 && !compared);
}

int report_end(struct bench_report *report)
{
    const struct bench_settings *settings = report->settings;
    bool failed = false;

    hide_progress(report);
    if (settings->format == BENCH_JSON) {
        g_autoptr(JsonBuilder) builder = document_build(report->facts, report->results);

        cli_print_json(builder);
    } else if (settings->format == BENCH_TABLE) {
        print_notes(report);
    }
    fflush(stdout);
    for (guint i = 0; i < report->results->len; i++)
        failed = failed || result_of(report, i)->wrong > 0;
    if (settings->save && !document_save(report->facts, report->results, settings->save))
        failed = true;
    if (settings->plot && !plot_draw(report->facts, report->results, settings->plot))
        failed = true;
    return is_too_slow(report) || failed ? EXIT_FAILED : EXIT_OK;
}
