/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's output: a row as soon as a cell is done; with --json one document at the end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli.h"

const char *const bench_memories[] = {"ordinary", "allocated", "registered", NULL};

static const char csv_head[] =
    "operation,bytes,count,dtype,op,memory,mode,ranks,calls,samples,settled,min_us,p50_us,p95_us,"
    "p99_us,algorithm_gbs,bus_gbs,cpu_percent,link,link_ns,wrong,served";

static const char *op_of(const struct bench_report *report, const struct bench_operation *operation)
{
    return operation->reduces ? tutti_reduce_op_name(report->rank->plan->op) : "-";
}

const char *bench_mode(const struct bench_plan *plan, const struct bench_cell *cell)
{
    if (plan->async)
        return cell->touched ? "async touched" : "async hot";
    return cell->touched ? "touched" : "hot";
}

/* ---- comparing -------------------------------------------------------------------------------- */

static bool has_string(JsonObject *object, const char *member, const char *value)
{
    return strcmp(json_object_get_string_member_with_default(object, member, ""), value) == 0;
}

/* The same cell of the document to compare with; NULL: it has none. */
static JsonObject *before_of(const struct bench_report *report, const struct bench_cell *cell)
{
    JsonArray *cells =
        report->against
            ? json_object_get_array_member(json_node_get_object(report->against), "cells")
            : NULL;

    for (guint i = 0; cells && i < json_array_get_length(cells); i++) {
        JsonObject *other = json_array_get_object_element(cells, i);

        if (other && has_string(other, "operation", cell->operation->name) &&
            has_string(other, "dtype", tutti_dtype_name(report->rank->plan->dtype)) &&
            has_string(other, "op", op_of(report, cell->operation)) &&
            has_string(other, "memory", bench_memories[report->rank->plan->memory]) &&
            has_string(other, "mode", bench_mode(report->rank->plan, cell)) &&
            json_object_get_int_member_with_default(other, "ranks", 0) == report->rank->size &&
            json_object_get_int_member_with_default(other, "bytes", -1) == (gint64)cell->bytes)
            return other;
    }
    return NULL;
}

static double number_of(JsonObject *object, const char *member)
{
    return json_object_get_double_member_with_default(object, member, 0);
}

/* How many times as fast as before; '~' where the middle halves of the samples meet. "": not known. */
static void compare(const struct bench_report *report, const struct bench_cell *cell,
                    char ret_words[24])
{
    JsonObject *before = before_of(report, cell);

    *ret_words = 0;
    if (!before || number_of(before, "p50_us") <= 0 || cell->p50 <= 0)
        return;
    const bool apart =
        number_of(before, "p25_us") > cell->p75 || number_of(before, "p75_us") < cell->p25;
    g_snprintf(ret_words, 24, "%.2f%s", number_of(before, "p50_us") / cell->p50, apart ? "" : "~");
}

/* ---- rows ------------------------------------------------------------------------------------- */

void bench_report_begin(struct bench_report *report)
{
    const struct bench_rank *rank = report->rank;

    if (report->format == FORMAT_CSV)
        printf("%s%s\n", csv_head, report->against ? ",against" : "");
    if (report->format != FORMAT_TABLE)
        return;
    printf("%d ranks, %s, %s memory%s; times in us, bandwidths in GB/s\n\n", rank->size,
           tutti_dtype_name(rank->plan->dtype), bench_memories[rank->plan->memory],
           rank->plan->async ? ", by works" : "");
    printf("%-14s %10s %10s %10s %10s %8s %8s %5s %-5s %s%s\n", "operation", "bytes", "p50", "p95",
           "p99", "algbw", "busbw", "cpu%", "link", report->against ? "against  " : "",
           "served by");
    fflush(stdout);
}

void bench_report_progress(const struct bench_report *report,
                           const struct bench_operation *operation, uint64_t bytes)
{
    if (report->progress)
        fprintf(stderr, "%s of %" G_GUINT64_FORMAT " bytes …\r", operation->name, bytes);
}

static void print_row(const struct bench_report *report, const struct bench_cell *cell)
{
    char against[24];

    compare(report, cell, against);
    printf("%-14s %10" G_GUINT64_FORMAT " %9.2f%s %10.2f %10.2f %8.2f %8.2f %5.0f %-5s ",
           cell->operation->name, cell->bytes, cell->p50, cell->settled ? " " : "?", cell->p95,
           cell->p99, cell->algorithm_gbs, cell->bus_gbs, cell->cpu_percent, cell->link);
    if (report->against)
        printf("%-8s ", against);
    printf("%s", cell->served);
    if (cell->wrong)
        printf("  %" G_GUINT64_FORMAT " WRONG", cell->wrong);
    printf("\n");
}

static void print_csv(const struct bench_report *report, const struct bench_cell *cell)
{
    const struct bench_plan *plan = report->rank->plan;
    char against[24];

    printf("%s,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%s,%s,%s,%s,%d,%d,%d,%d,%.4f,%.4f,%.4f,"
           "%.4f,%.4f,%.4f,%.1f,%s,%.1f,%" G_GUINT64_FORMAT ",%s",
           cell->operation->name, cell->bytes, cell->count, tutti_dtype_name(plan->dtype),
           op_of(report, cell->operation), bench_memories[plan->memory], bench_mode(plan, cell),
           report->rank->size, cell->calls, cell->samples, cell->settled, cell->min, cell->p50,
           cell->p95, cell->p99, cell->algorithm_gbs, cell->bus_gbs, cell->cpu_percent, cell->link,
           cell->link_ns, cell->wrong, cell->served);
    compare(report, cell, against);
    if (report->against)
        printf(",%s", against);
    printf("\n");
}

void bench_report_cell(struct bench_report *report, const struct bench_cell *cell)
{
    g_array_append_val(report->cells, *cell);
    if (report->progress)
        fputs("\033[K", stderr); /* the line of the progress */
    if (report->format == FORMAT_TABLE)
        print_row(report, cell);
    else if (report->format == FORMAT_CSV)
        print_csv(report, cell);
    fflush(stdout);
}

static int count_of(const struct bench_report *report, bool (*is)(const struct bench_cell *cell))
{
    int count = 0;

    for (guint i = 0; i < report->cells->len; i++)
        count += is(&g_array_index(report->cells, struct bench_cell, i));
    return count;
}

static bool is_unsettled(const struct bench_cell *cell)
{
    return !cell->settled;
}

static bool is_of_both_links(const struct bench_cell *cell)
{
    return strcmp(cell->link, "both") == 0;
}

static void say_slower(const struct bench_report *report)
{
    int slower = 0, known = 0;

    for (guint i = 0; i < report->cells->len; i++) {
        char words[24];

        compare(report, &g_array_index(report->cells, struct bench_cell, i), words);
        known += *words != 0;
        slower += *words && !strchr(words, '~') && g_ascii_strtod(words, NULL) < 1;
    }
    if (known == 0)
        printf("against: %s has none of these cells\n", report->against_path);
    else
        printf(
            "against: how many times as fast as in %s; ~: within the noise. %d of %d are slower\n",
            report->against_path, slower, known);
}

void bench_report_end(struct bench_report *report)
{
    const int unsettled = count_of(report, is_unsettled);

    if (report->format == FORMAT_JSON) {
        g_autoptr(JsonNode) root = bench_report_json(report);
        g_autofree char *text = json_to_string(root, TRUE);

        puts(text);
    }
    if (report->format != FORMAT_TABLE)
        return;
    printf("\n");
    if (unsettled)
        printf("?: %d medians are not known to 2 %%; give them more time with --seconds\n",
               unsettled);
    if (count_of(report, is_of_both_links))
        printf("link both: the CPUs of ranks 0 and 1 changed their distance while these were "
               "measured\n");
    if (report->against)
        say_slower(report);
}
