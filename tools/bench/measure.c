/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <glib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/operation.h"
#include "bench/stats.h"
#include "bench/values.h"

enum {
    SAMPLES_MIN = 30,
    SAMPLES_MAX = 100000,
    LOOK_EVERY = 10,        /* samples between two looks at the median */
    CALLS_MAX = 20000,      /* of a sample */
    TOUCHED_CALLS_MAX = 200 /* since writing takes time that is not counted */
};

static const double warm_up_s = 0.004, sample_s = 0.001, median_within = 0.02;
/* More than the time of a cell, while the link changes during each sample. */
static const double patience_s = 2;

struct sample {
    double seconds;             /* of one operation */
    double before_ns, after_ns; /* the link; 0: not known */
    double elapsed_s;
};

/* The samples of one link. */
struct series {
    GArray *samples; /* double, seconds */
    double link_ns;  /* sum of the probes */
    int probes;
};

struct measuring {
    struct bench_cell *cell;
    struct series series[2]; /* near, or not known; far */
    bool far;                /* the last sample's */
    int dropped, calls;
    double start_s;
    struct bench_result *result;
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

tutti_status measure_over_ranks(tutti_group *world, double *values, int count, tutti_reduce_op op)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F64, &shape, count);

    return tutti_all_reduce(world, &tensor, op, NULL, NULL);
}

/* ---- samples ---- */

/* The seconds of `calls` calls on this rank. */
static tutti_status time_calls(struct bench_cell *cell, int calls, double *ret_seconds)
{
    struct bench_call *call = &cell->call;
    const bool paced = cell->touched || operation_is_paced(call->operation);
    double spent = 0, start = now_s();
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < calls && !status; i++) {
        if (cell->touched)
            values_touch(call);
        if (paced) {
            status = tutti_barrier(call->world, NULL, NULL);
            start = now_s();
        }
        if (!status)
            status = call_run(call);
        if (paced)
            spent += now_s() - start;
    }
    *ret_seconds = paced ? spent : now_s() - start;
    return status;
}

static tutti_status probe(struct bench_cell *cell, double *ret_ns)
{
    tutti_status status = TUTTI_OK;

    *ret_ns = 0;
    if (cell->link) {
        status = tutti_barrier(cell->call.world, NULL, NULL);
        *ret_ns = link_probe(cell->link);
    }
    return status;
}

static tutti_status take_sample(struct measuring *m, int calls, struct sample *ret_sample)
{
    struct bench_cell *cell = m->cell;
    double seconds, before, after;
    tutti_status status = probe(cell, &before);

    if (!status)
        status = tutti_barrier(cell->call.world, NULL, NULL);
    if (!status)
        status = time_calls(cell, calls, &seconds);
    if (!status)
        status = probe(cell, &after);
    if (status)
        return status;

    double values[] = {seconds, before, after, now_s() - m->start_s};

    status = measure_over_ranks(cell->call.world, values, G_N_ELEMENTS(values), TUTTI_MAX);
    *ret_sample = (struct sample){.seconds = values[0] / calls / operation_parts(&cell->call),
                                  .before_ns = values[1],
                                  .after_ns = values[2],
                                  .elapsed_s = values[3]};
    return status;
}

/* Sets m->calls to what takes as long as a sample. */
static tutti_status warm_up(struct measuring *m)
{
    const int most = m->cell->touched ? TOUCHED_CALLS_MAX : CALLS_MAX;
    const int parts = operation_parts(&m->cell->call);
    const double wanted_s = MIN(sample_s, m->cell->time_s / SAMPLES_MIN);
    struct sample sample;
    int calls = 1;

    for (;;) {
        const tutti_status status = take_sample(m, calls, &sample);

        if (status)
            return status;
        if (calls >= most || sample.seconds * calls * parts >= warm_up_s ||
            sample.elapsed_s >= m->cell->time_s)
            break;
        calls = MIN(2 * calls, most);
    }

    const double fit = wanted_s / MAX(sample.seconds * parts, 1e-9);

    m->calls = (int)CLAMP(fit, 1, most);
    return TUTTI_OK;
}

/* Which link the sample had: 0, 1, or -1 if it changed meanwhile. A probe that is not known says nothing. */
static int link_of(const struct measuring *m, const struct sample *sample)
{
    const bool before = sample->before_ns > LINK_FAR_NS, after = sample->after_ns > LINK_FAR_NS;

    if (sample->before_ns <= 0 && sample->after_ns <= 0)
        return m->far;
    if (sample->before_ns <= 0 || sample->after_ns <= 0 || before == after)
        return before || after;
    return -1;
}

static void keep_sample(struct measuring *m, const struct sample *sample)
{
    const int which = link_of(m, sample);

    if (which < 0) {
        m->dropped++;
        return;
    }

    struct series *series = &m->series[which];

    m->far = which;
    g_array_append_val(series->samples, sample->seconds);
    series->link_ns += sample->before_ns + sample->after_ns;
    series->probes += (sample->before_ns > 0) + (sample->after_ns > 0);
}

/* ---- results ---- */

static void conclude(struct measuring *m)
{
    const bool far = m->series[1].samples->len > m->series[0].samples->len;
    const struct series *series = &m->series[far];
    const guint count = series->samples->len;
    struct bench_result *result = m->result;

    if (!count)
        return;

    g_autofree double *sorted = g_memdup2(series->samples->data, count * sizeof(double));
    double low, high;

    stats_sort(sorted, count);
    const double median = stats_median(sorted, count, &low, &high);
    const double bandwidth = operation_size(&m->cell->call) / median * 1e-9;

    result->p50_us = median * 1e6;
    result->p95_us = stats_percentile(sorted, count, 95) * 1e6;
    result->p99_us = stats_percentile(sorted, count, 99) * 1e6;
    result->min_us = sorted[0] * 1e6;
    result->low_us = low * 1e6;
    result->high_us = high * 1e6;
    result->algbw = bandwidth;
    result->busbw = bandwidth * operation_bus_factor(m->cell->call.operation, m->cell->call.size);
    result->samples = count;
    result->dropped = m->dropped + m->series[!far].samples->len;
    result->calls = m->calls;
    result->settled = count >= SAMPLES_MIN && (high - low) / 2 <= median_within * median;
    result->link_ns = series->probes ? series->link_ns / series->probes : 0;
    result->link = !series->probes ? NULL : far ? "far" : "near";
}

static bool is_done(struct measuring *m, int taken, double elapsed_s)
{
    const bool some = m->series[0].samples->len || m->series[1].samples->len;
    const double time_s = m->cell->time_s;

    if (taken >= SAMPLES_MAX || elapsed_s >= time_s + (some ? 0 : patience_s))
        return true;
    if (taken % LOOK_EVERY)
        return false;
    conclude(m);
    if (m->cell->progress)
        m->cell->progress(m->result, m->cell->user);
    return m->result->settled && elapsed_s >= time_s / 4;
}

static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static tutti_status take_samples(struct measuring *m)
{
    struct sample sample = {0};
    tutti_status status;
    int taken = 0;

    m->start_s = now_s();
    status = warm_up(m);
    m->start_s = now_s();

    const double cpu_before_s = cpu_s();

    do {
        if (!status)
            status = take_sample(m, m->calls, &sample);
        if (status)
            return status;
        keep_sample(m, &sample);
    } while (!is_done(m, ++taken, sample.elapsed_s));

    double used[] = {cpu_s() - cpu_before_s, now_s() - m->start_s};

    status = measure_over_ranks(m->cell->call.world, used, G_N_ELEMENTS(used), TUTTI_SUM);
    conclude(m);
    m->result->cpu_percent = 100 * used[0] / used[1];
    return status;
}

tutti_status measure_cell(struct bench_cell *cell, struct bench_result *ret_result)
{
    struct measuring m = {.cell = cell, .result = ret_result};
    tutti_status status;

    for (int i = 0; i < 2; i++)
        m.series[i].samples = g_array_new(FALSE, FALSE, sizeof(double));
    status = take_samples(&m);
    for (int i = 0; i < 2; i++)
        g_array_unref(m.series[i].samples);
    return status;
}
