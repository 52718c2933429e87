/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a cell is measured.
 *
 * A sample is the mean time of some calls on the slowest rank. Calls are repeated twice as often
 * until they take WARM_UP_S, so that connections, rings and windows are in use before anything
 * counts; then samples are taken until the median is known within MEDIAN_WITHIN, or until the time
 * for the cell is over.
 *
 * Touched: each rank writes its input before each call, as a program does, which is not timed. Otherwise (hot)
 * each part of the data stays in the cache of the rank that wrote it last, and nothing is moved.
 *
 * The link is probed before and after each sample. A sample is near or far; if the probes
 * disagree, it is dropped. Only the samples of the link that was there more often count.
 *
 * All ranks see the same numbers, by a maximum over the ranks after each sample, and so decide alike.
 */
#pragma once

#include "bench/call.h"
#include "bench/link.h"
#include "bench/result.h"

struct bench_cell {
    struct bench_call call; /* open */
    struct bench_link *link;
    bool touched;
    double time_s;
    /* Called on every rank between samples, with what is known so far. */
    void (*progress)(const struct bench_result *so_far, void *user);
    void *user;
};

/* Fills in what was measured: times, bandwidths, link and CPU. */
tutti_status measure_cell(struct bench_cell *cell, struct bench_result *ret_result);

/* The largest (or, for `op`, the sum) of each of `count` values over the ranks, in place. */
tutti_status measure_over_ranks(tutti_group *world, double *values, int count, tutti_reduce_op op);
