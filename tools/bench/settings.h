/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of `tutti bench` asks for. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tensor.h>

#include "bench/call.h"

enum bench_touch { BENCH_TOUCH_LONG, BENCH_TOUCH_ALWAYS, BENCH_TOUCH_NEVER };
enum bench_format { BENCH_TABLE, BENCH_CSV, BENCH_JSON };

/* The fields that GOption fills in. */
struct bench_given {
    char *ranks, *backend, *sizes, *from, *to, *factor, *dtype, *op, *memory, *root, *window, *time,
        *plot, *save, *against, *fail_above, *tune;
    gboolean async, touched, hot, no_check, json, csv;
    gboolean as_rank; /* started by this verb */
};

struct bench_settings {
    GPtrArray *operations; /* const struct bench_operation * */
    GArray *sizes;         /* uint64_t, in whole elements, none twice in a row */
    const char *backend;   /* NULL: as the environment says */
    const char *dtype_name, *op_name;
    tutti_dtype dtype;
    tutti_reduce_op op;
    enum bench_memory memory;
    enum bench_touch touch;
    enum bench_format format;
    bool async, check;
    int root;                          /* -1: the operation's default */
    int window;                        /* of bursts */
    double time_s;                     /* the most that the samples of a cell take */
    double fail_above;                 /* percent; negative: a slower cell is no failure */
    const char *plot, *save, *against; /* NULL: not asked for */
    char *tune;                        /* the tuning file to write; NULL: not asked for */
    bool tune_is_found;                /* it is where tutti_init() looks for it */
};

extern const char *const bench_memory_names[]; /* by enum bench_memory; ends with NULL */

/* False after having said what is wrong. settings_clear() in any case. The texts are those of `given`. */
bool settings_parse(const struct bench_given *given, int argc, char **argv,
                    struct bench_settings *ret_settings);
void settings_clear(struct bench_settings *settings);

/* Whether the input of a call of that many bytes is written before each call. */
bool settings_touch(const struct bench_settings *settings, uint64_t bytes);

/* Whether what the settings name can be used: folders to write to, gnuplot. False after having said
 * what cannot. On the rank that writes. */
bool settings_check_files(const struct bench_settings *settings);

/* Whether the operations, root and window fit a job of that many ranks. False after having said why. */
bool settings_fit(const struct bench_settings *settings, int ranks);
