/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cell: calls are made twice as often until they take as long as a sample, which warms everything up;
 * the result is checked; samples are taken until the median is known to 2 %, or the time is over; the result
 * is checked again.
 *
 * The median's confidence interval is that of order statistics, which no distribution is assumed for.
 * Samples are taken in rounds. At the end of each, one all_reduce gives every rank the longest times, and
 * the time that has passed: so all stop after the same round.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/bench.h"

enum {
    ROUND = 25,        /* samples */
    SAMPLES_MIN = 100, /* before the median is trusted */
    SAMPLES_MAX = 4000,
    SAMPLE_US = 40, /* what a sample takes at least */
    CALLS_MAX = 20000,
    TOUCHED_FROM = 513, /* bytes; tests of bench/ have the same bound */
    FAR_NS = 110        /* what a flag takes between CPUs that share no cache */
};
static const double settled_at = 0.02;

/* What ranks tell each other after a round. */
struct round {
    double samples[ROUND];
    double spent_s;         /* since the cell began */
    double near_ns, far_ns; /* the link before and after; 0: not so, or not known */
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static tutti_status over_ranks(struct bench_rank *rank, void *values, int64_t count,
                               tutti_reduce_op op)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F64, &shape, count);

    return tutti_all_reduce(rank->world, &tensor, op, NULL, NULL);
}

static bool is_touched(const struct bench_call *call)
{
    return !call->plan->hot && call->bytes >= TOUCHED_FROM;
}

/* Inputs are written as a program would between two calls; what they hold is of no interest here. */
static void touch(const struct bench_rank *rank, const struct bench_call *call)
{
    const uint64_t blocks = call->operation->takes_blocks ? (uint64_t)rank->size : 1;

    memset(call->in, 1, call->bytes * blocks);
    __asm__ volatile("" ::"r"(call->in) : "memory");
}

/* Microseconds of a call on this rank: the mean of `calls`. */
static tutti_status sample(struct bench_rank *rank, const struct bench_call *call, int calls,
                           double *ret_us)
{
    const bool touched = is_touched(call), paced = touched || call->operation->rooted;
    double spent = 0, begin = 0;
    tutti_status status = tutti_barrier(rank->world, NULL, NULL);

    if (!paced)
        begin = now_s();
    for (int i = 0; i < calls && !status; i++) {
        if (touched)
            touch(rank, call);
        if (paced) {
            status = tutti_barrier(rank->world, NULL, NULL);
            begin = now_s();
        }
        if (!status)
            status = call->operation->run(rank, call);
        if (paced)
            spent += now_s() - begin;
    }
    if (!paced)
        spent = now_s() - begin;
    if (call->operation->is_message && rank->rank > 1)
        spent = 0; /* it only stood by */
    *ret_us = spent / calls * 1e6 / (call->operation->halves ? 2 : 1);
    return status;
}

static tutti_status warm_up(struct bench_rank *rank, const struct bench_call *call, int *ret_calls)
{
    double us;

    for (int calls = 1;; calls *= 2) {
        tutti_status status = sample(rank, call, calls, &us);

        if (!status)
            status = over_ranks(rank, &us, 1, TUTTI_MAX);
        if (status)
            return status;
        if (us * calls >= 4 * SAMPLE_US || calls >= CALLS_MAX) {
            *ret_calls = us >= SAMPLE_US ? 1 : (int)ceil(SAMPLE_US / fmax(us, 1e-3));
            return TUTTI_OK;
        }
    }
}

static void name_way(struct bench_rank *rank, struct bench_cell *cell)
{
    tutti_record record;
    uint32_t count = 0;

    if (!tutti_recorder_read(rank->world, &record, sizeof record, 1, &count) && count)
        g_snprintf(cell->served, sizeof cell->served, "%s %s", record.provider, record.algorithm);
}

/* Makes a call and adds what is wrong with its result. */
static tutti_status check(struct bench_rank *rank, const struct bench_call *call,
                          struct bench_cell *cell)
{
    double count;

    bench_data_fill(rank, call);
    tutti_status status = tutti_barrier(rank->world, NULL, NULL);
    if (!status)
        status = call->operation->run(rank, call);
    if (status)
        return status;
    name_way(rank, cell);
    count = (double)bench_data_wrong(rank, call);
    status = over_ranks(rank, &count, 1, TUTTI_SUM);
    cell->wrong += (uint64_t)count;
    return status;
}

static tutti_status take_round(struct bench_rank *rank, const struct bench_call *call, int calls,
                               double begun_s, struct round *ret_round)
{
    struct round round = {.near_ns = 0};
    const double before = bench_link_probe(rank->link);
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < ROUND && !status; i++)
        status = sample(rank, call, calls, &round.samples[i]);
    const double after = bench_link_probe(rank->link);
    round.near_ns = before < FAR_NS ? before : after < FAR_NS ? after : 0;
    round.far_ns = before >= FAR_NS ? before : after >= FAR_NS ? after : 0;
    round.spent_s = now_s() - begun_s;
    if (!status)
        status = over_ranks(rank, &round, sizeof round / sizeof(double), TUTTI_MAX);
    *ret_round = round;
    return status;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at(const double *sorted, int count, double part)
{
    return sorted[(int)fmin(count - 1, floor(part * count))];
}

static void judge(struct bench_cell *cell, double *samples, int count)
{
    const double half = 0.98 * sqrt(count); /* 1.96 standard deviations of a rank, sqrt(n) / 2 */

    qsort(samples, (size_t)count, sizeof *samples, by_size);
    cell->samples = count;
    cell->min = samples[0];
    cell->p25 = at(samples, count, 0.25);
    cell->p50 = at(samples, count, 0.5);
    cell->p75 = at(samples, count, 0.75);
    cell->p95 = at(samples, count, 0.95);
    cell->p99 = at(samples, count, 0.99);
    cell->low = samples[(int)fmax(0, count / 2.0 - half)];
    cell->high = samples[(int)fmin(count - 1, count / 2.0 + half)];
    cell->settled = count >= SAMPLES_MIN && cell->high - cell->low <= 2 * settled_at * cell->p50;
}

static void see_link(struct bench_cell *cell, const struct round *round, bool *near, bool *far)
{
    *near |= round->near_ns > 0;
    *far |= round->far_ns > 0;
    cell->link = *near && *far ? "both" : *near ? "near" : *far ? "far" : "-";
    cell->link_ns = fmax(round->near_ns, round->far_ns);
}

/* Rounds until the median is known, or the time is over. */
static tutti_status take_samples(struct bench_rank *rank, const struct bench_call *call,
                                 struct bench_cell *cell)
{
    static double samples[SAMPLES_MAX], sorted[SAMPLES_MAX];
    const double begun_s = now_s(), cpu_begun_s = cpu_s();
    bool near = false, far = false;
    struct round round = {.spent_s = 0};
    int count = 0;

    do {
        tutti_status status = take_round(rank, call, cell->calls, begun_s, &round);

        if (status)
            return status;
        memcpy(samples + count, round.samples, sizeof round.samples);
        count += ROUND;
        memcpy(sorted, samples, (size_t)count * sizeof *sorted);
        judge(cell, sorted, count);
        see_link(cell, &round, &near, &far);
    } while (!cell->settled && round.spent_s < rank->plan->seconds && count + ROUND <= SAMPLES_MAX);
    cell->cpu_percent = 100 * (cpu_s() - cpu_begun_s) / (now_s() - begun_s) / rank->size;
    return over_ranks(rank, &cell->cpu_percent, 1, TUTTI_SUM);
}

tutti_status bench_measure(struct bench_rank *rank, const struct bench_operation *operation,
                           uint64_t bytes, struct bench_cell *ret_cell)
{
    const uint64_t element = tutti_dtype_size(rank->plan->dtype);
    const struct bench_call call = {.operation = operation,
                                    .count = bytes / element,
                                    .bytes = bytes / element * element,
                                    .plan = rank->plan,
                                    .in = rank->in,
                                    .out = rank->out};
    struct bench_cell cell = {.operation = operation,
                              .bytes = call.bytes,
                              .count = call.count,
                              .touched = is_touched(&call),
                              .link = "-"};

    tutti_status status = check(rank, &call, &cell);
    if (!status)
        status = warm_up(rank, &call, &cell.calls);
    if (!status)
        status = take_samples(rank, &call, &cell);
    if (!status)
        status = check(rank, &call, &cell);
    if (status)
        return status;
    cell.algorithm_gbs = operation->moved((double)call.bytes, rank->size) / cell.p50 * 1e-3;
    cell.bus_gbs = cell.algorithm_gbs * operation->factor(rank->size);
    *ret_cell = cell;
    return TUTTI_OK;
}
