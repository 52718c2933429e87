/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured: a cell is an operation with one size. The list of its fields is that of the CSV
 * and JSON output, and of saved files. */
#pragma once

#include <glib.h>
#include <stdint.h>

enum bench_verdict { BENCH_NOT_COMPARED, BENCH_SAME, BENCH_FASTER, BENCH_SLOWER, BENCH_OTHER_LINK };

struct bench_result {
    const char *operation, *dtype, *op; /* NULL: it has none */
    const char *memory, *mode, *link;   /* link NULL: not known */
    gint64 bytes, count, window;
    gint64 samples, dropped, calls;
    gint64 async, settled;
    double link_ns;
    double p50_us, p95_us, p99_us, min_us;
    double low_us, high_us; /* the median lies between them, at 95 % */
    double algbw, busbw;    /* 10^9 bytes a second */
    double cpu_percent;
    gint64 wrong;       /* -1: not checked */
    const char *served; /* backend and algorithm */

    double before_us, ratio; /* of the file that it is compared with; 0: not compared */
    enum bench_verdict verdict;
};

enum bench_kind {
    BENCH_TEXT,
    BENCH_NUMBER,
    BENCH_BOOL,
    BENCH_REAL,
    BENCH_REAL_OR_NONE,
    BENCH_COUNT_OR_NONE
};

/* X(name, member, kind) */
#define BENCH_FIELDS(X)                                                                            \
    X("operation", operation, BENCH_TEXT)                                                          \
    X("bytes", bytes, BENCH_NUMBER)                                                                \
    X("count", count, BENCH_NUMBER)                                                                \
    X("dtype", dtype, BENCH_TEXT)                                                                  \
    X("op", op, BENCH_TEXT)                                                                        \
    X("memory", memory, BENCH_TEXT)                                                                \
    X("mode", mode, BENCH_TEXT)                                                                    \
    X("async", async, BENCH_BOOL)                                                                  \
    X("window", window, BENCH_NUMBER)                                                              \
    X("link", link, BENCH_TEXT)                                                                    \
    X("link_ns", link_ns, BENCH_REAL_OR_NONE)                                                      \
    X("p50_us", p50_us, BENCH_REAL)                                                                \
    X("p95_us", p95_us, BENCH_REAL)                                                                \
    X("p99_us", p99_us, BENCH_REAL)                                                                \
    X("min_us", min_us, BENCH_REAL)                                                                \
    X("p50_low_us", low_us, BENCH_REAL)                                                            \
    X("p50_high_us", high_us, BENCH_REAL)                                                          \
    X("algbw_gbs", algbw, BENCH_REAL)                                                              \
    X("busbw_gbs", busbw, BENCH_REAL)                                                              \
    X("cpu_percent", cpu_percent, BENCH_REAL)                                                      \
    X("samples", samples, BENCH_NUMBER)                                                            \
    X("samples_dropped", dropped, BENCH_NUMBER)                                                    \
    X("calls_per_sample", calls, BENCH_NUMBER)                                                     \
    X("settled", settled, BENCH_BOOL)                                                              \
    X("wrong", wrong, BENCH_COUNT_OR_NONE)                                                         \
    X("before_us", before_us, BENCH_REAL_OR_NONE)                                                  \
    X("ratio", ratio, BENCH_REAL_OR_NONE)                                                          \
    X("served_by", served, BENCH_TEXT)

/* The facts of a run that all its cells share; g_free() by report_clear(). */
struct bench_facts {
    char *version, *host, *cpu, *date, *backend;
    int ranks, hosts, usable_cpus;
    double time_s;
};
