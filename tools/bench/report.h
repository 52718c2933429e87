/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 prints and writes: rows while they are measured, then files. */
#pragma once

#include <stdbool.h>

#include "bench/result.h"
#include "bench/settings.h"

struct bench_report;

/* Version, ranks, backend, host and CPU of a run, in a line; g_free(). */
char *report_origin(const struct bench_facts *facts);

/* Reads the file to compare with. NULL after having said why it cannot be used. The report keeps the
 * settings and facts. */
struct bench_report *report_new(const struct bench_settings *settings,
                                const struct bench_facts *facts, int cells);
void report_free(struct bench_report *report);

/* Prints what comes before the first row. `link_ns` 0: not known. */
void report_begin(struct bench_report *report, double link_ns, int peer);

/* Shows on a terminal which cell is being measured. */
void report_progress(struct bench_report *report, const struct bench_result *so_far);

/* Prints the row, and keeps it. */
void report_row(struct bench_report *report, struct bench_result *result);

/* Prints and writes the rest; returns the exit code. */
int report_end(struct bench_report *report);
