/* SPDX-License-Identifier: Apache-2.0 */
/* The picture, by gnuplot: medians by size, a line for each operation, both axes logarithmic. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli.h"

static const struct bench_cell *cell_at(const struct bench_report *report, guint i)
{
    return &g_array_index(report->cells, struct bench_cell, i);
}

static bool has_points(const struct bench_report *report, const struct bench_operation *operation)
{
    for (guint i = 0; i < report->cells->len; i++)
        if (cell_at(report, i)->operation == operation && cell_at(report, i)->bytes)
            return true;
    return false;
}

static void add_points(GString *script, const struct bench_report *report,
                       const struct bench_operation *operation)
{
    char number[G_ASCII_DTOSTR_BUF_SIZE];

    for (guint i = 0; i < report->cells->len; i++) {
        const struct bench_cell *cell = cell_at(report, i);

        if (cell->operation == operation && cell->bytes)
            g_string_append_printf(script, "%" G_GUINT64_FORMAT " %s\n", cell->bytes,
                                   g_ascii_dtostr(number, sizeof number, cell->p50));
    }
    g_string_append(script, "e\n");
}

/* Names have underscores, which gnuplot would take for subscripts. */
static char *script_of(const struct bench_report *report, const char *path)
{
    GString *script = g_string_new("set terminal svg size 800,500 noenhanced\n");
    g_autofree char *quoted = g_strescape(path, NULL);
    const struct bench_operation *operation;
    const char *between = "plot ";

    g_string_append_printf(
        script,
        "set output \"%s\"\nset logscale xy\nset grid\nset key left top\n"
        "set xlabel 'bytes'\nset ylabel 'median, microseconds'\n"
        "set format x '%%.0s%%c'\nset title 'tutti bench: %d ranks, %s, %s memory'\n",
        quoted, report->rank->size, tutti_dtype_name(report->rank->plan->dtype),
        bench_memories[report->rank->plan->memory]);
    for (operation = bench_operations; operation->name; operation++)
        if (has_points(report, operation)) {
            g_string_append_printf(script, "%s'-' title '%s' with linespoints", between,
                                   operation->name);
            between = ", ";
        }
    g_string_append(script, "\n");
    for (operation = bench_operations; operation->name; operation++)
        if (has_points(report, operation))
            add_points(script, report, operation);
    return g_string_free(script, FALSE);
}

bool bench_plot(const struct bench_report *report, const char *path)
{
    g_autofree char *script = script_of(report, path);
    FILE *gnuplot = popen("gnuplot", "w"); /* NOLINT: no word of it is from outside */

    if (gnuplot) {
        fputs(script, gnuplot);
        if (pclose(gnuplot) == 0)
            return true;
    }
    cli_say("bench", "gnuplot could not draw %s", path);
    return false;
}
