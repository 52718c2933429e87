/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti bench --tune`: finds the sizes at which one algorithm overtakes another on these ranks, and
 * writes them as a tuning file.
 *
 * For each threshold the ranks make two worlds. In one the threshold is 0, so that the algorithm for long
 * calls takes all calls; in the other it is as large as possible, so that the one for short calls does.
 * The same calls are measured in both in turns, at sizes that are bisected. So no algorithm is forced:
 * what is measured is what tutti_init() makes of a file.
 *
 * A size counts as won if each turn has the same winner, by more than NOISE in the middle, and if the
 * link did not change meanwhile: near and far CPUs have different thresholds. A threshold changes only if the standard value lost at some size. All ranks see the same numbers (measure.h), and
 * so bisect alike.
 */
#pragma once

#include <stdbool.h>

#include "bench/link.h"
#include "bench/result.h"
#include "bench/settings.h"

struct tune_job {
    tutti_group *world;
    int rank, size;
    const struct bench_settings *settings;
    const struct bench_facts *facts;
    tutti_reduce_op op;
    struct bench_link *link; /* NULL: not probed */
};

/* Whether a threshold decides about the operation. */
bool tune_knows(const char *operation);

/* Makes tutti_init() read thresholds that tune_run() sets, and the standard ones until then: a file
 * that TUTTI_TUNING names may be what is to be replaced. Before the first tutti_init(). False after
 * having said why not. */
bool tune_prepare(void);

/* Measures, prints, and writes the file on rank 0. Collective. The exit code. */
int tune_run(const struct tune_job *job);
