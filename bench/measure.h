/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every library is measured here, the same way: each sample is the time of the slowest rank's
 * mean call, the result is the median (and the minimum) of the samples.
 *
 * «touched»: each rank rewrites its buffer before each timed call, so that nothing stays in the cache of
 * whoever reduced it last; «hot» leaves it alone. With two ranks the link between their cores is
 * probed before and after each sample, since a virtual machine's cores may change their distance within
 * seconds: a sample is tagged near or far (hand-over of a cache line below or above 110 ns), and
 * dropped when the probes disagree.
 */
#ifndef TUTTI_BENCH_MEASURE_H
#define TUTTI_BENCH_MEASURE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct subject {
    const char *name; /* "tutti-shm", "openmpi" */
    int rank, size;
    void (*all_reduce)(float *data, size_t count); /* sum, in place */
    void (*barrier)(void);
    double (*max)(double value); /* over the ranks */
};

enum { MEASURE_SAMPLES = 15, MEASURE_FAR_NS = 110, PROBE_ROUNDS = 1000 };

static _Atomic uint64_t *probe_words;
static uint64_t probe_round;

static inline double measure_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The two ranks' shared words lie in the file BENCH_PROBE, which the comparing script makes. */
static void probe_open(const struct subject *s)
{
    const char *path = getenv("BENCH_PROBE");
    int fd = path && s->size == 2 ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (words != MAP_FAILED)
        probe_words = words;
    if (probe_words && s->rank == 0)
        memset((void *)probe_words, 0, 4096);
    s->barrier();
}

/* Nanoseconds of one exchange of flags; 0: not known. */
static double probe(const struct subject *s)
{
    if (!probe_words)
        return 0;
    _Atomic uint64_t *mine = probe_words + 32 * s->rank, *other = probe_words + 32 * !s->rank;

    s->barrier();
    double start = measure_now();
    for (int i = 0; i < PROBE_ROUNDS; i++) {
        atomic_store_explicit(mine, ++probe_round, memory_order_release);
        while (atomic_load_explicit(other, memory_order_acquire) < probe_round)
            ;
    }
    return s->max((measure_now() - start) / PROBE_ROUNDS * 1e9);
}

static void touch(const struct subject *s, float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = 1.0f + (float)s->rank;
    __asm__ volatile("" ::"r"(data) : "memory");
}

/* Seconds of a call: mean over `calls`, of the slowest rank. */
static double sample(const struct subject *s, float *data, size_t count, int calls, int touched)
{
    double spent = 0, start = 0;

    s->barrier();
    if (!touched)
        start = measure_now();
    for (int i = 0; i < calls; i++) {
        if (touched) {
            touch(s, data, count);
            s->barrier();
            start = measure_now();
        }
        if (count)
            s->all_reduce(data, count);
        else
            s->barrier();
        if (touched)
            spent += measure_now() - start;
    }
    if (!touched)
        spent = measure_now() - start;
    return s->max(spent / calls);
}

/* One line a regime: subject, operation, bytes, ranks, mode, regime, minimum, median, samples. */
static void measure(const struct subject *s, float *data, size_t bytes, double budget, int touched)
{
    double times[2][MEASURE_SAMPLES];
    int have[2] = {0, 0};
    size_t count = bytes / sizeof(float);
    double once = sample(s, data, count, 2, touched);
    double wanted = budget / (once > 1e-9 ? once : 1e-9);
    int calls = wanted < 2 ? 2 : wanted > 20000 ? 20000 : (int)wanted;

    if (touched && calls > 200)
        calls = 200;
    calls = (int)s->max(calls);
    for (int i = 0; i < MEASURE_SAMPLES; i++) {
        int before = probe(s) > MEASURE_FAR_NS;
        double t = sample(s, data, count, calls, touched);
        int after = probe(s) > MEASURE_FAR_NS;

        if (before == after)
            times[after][have[after]++] = t * 1e6;
    }
    for (int far = 0; far < 2 && s->rank == 0; far++) {
        if (!have[far])
            continue;
        qsort(times[far], (size_t)have[far], sizeof(double), measure_compare);
        printf("%s\t%s\t%zu\t%d\t%s\t%s\t%.3f\t%.3f\t%d\n", s->name,
               bytes ? "all_reduce" : "barrier", bytes, s->size, touched ? "touched" : "hot",
               !probe_words ? "-"
               : far        ? "far"
                            : "near",
               times[far][0], times[far][have[far] / 2], have[far]);
        fflush(stdout);
    }
}

/* Arguments: BYTES … ; 0 is the barrier. Hot to 512 B and with more than two ranks, else touched. */
static int measure_main(const struct subject *s, int argc, char **argv)
{
    size_t largest = 4;

    for (int i = 1; i < argc; i++) {
        size_t bytes = strtoull(argv[i], NULL, 0);
        largest = bytes > largest ? bytes : largest;
    }
    float *data = aligned_alloc(4096, (largest + 4095) / 4096 * 4096);
    if (!data) {
        fprintf(stderr, "no memory for %zu bytes\n", largest);
        return 1;
    }
    memset(data, 0, largest);
    probe_open(s);
    for (int i = 1; i < argc; i++) {
        size_t bytes = strtoull(argv[i], NULL, 0);
        measure(s, data, bytes, 0.004, bytes > 512 && s->size == 2);
    }
    free(data);
    return 0;
}

#endif
