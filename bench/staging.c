/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs that a tensor lies on a GPU: an all_reduce of such a tensor, beside the copy to pinned memory, the same
 * all_reduce of a tensor in host memory, and the copy back. They take turns, so that each ratio compares what ran within
 * a moment. Rank 0 writes a line that begins with # for each length: medians of the rounds, and of their ratios.
 *
 *     TUTTI_BACKEND=shm tutti run -n 2 staging_bench staging_is_measured
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { ROUNDS_MAX = 100, LONGEST = 64 << 20 };

struct places {
    tutti_group *world;
    void *stream;
    void *on_device, *on_host, *pinned;
    int64_t shape;
};

typedef void (*timed_fn)(struct places *at, size_t bytes);

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void reduce(struct places *at, void *memory, tutti_device device, size_t bytes)
{
    tutti_tensor tensor =
        tutti_tensor_1d(memory, TUTTI_F32, &at->shape, (int64_t)(bytes / sizeof(float)));
    tutti_options options = TUTTI_OPTIONS_INIT;

    tensor.device = device;
    options.stream = device.type == TUTTI_DEVICE_CUDA ? at->stream : NULL;
    check_ok(tutti_all_reduce(at->world, &tensor, TUTTI_SUM, &options, NULL));
}

static void on_device(struct places *at, size_t bytes)
{
    reduce(at, at->on_device, gpu_device(), bytes);
    gpu_synchronize(at->stream);
}

static void on_host(struct places *at, size_t bytes)
{
    reduce(at, at->on_host, (tutti_device){TUTTI_DEVICE_CPU, 0}, bytes);
}

static void to_host(struct places *at, size_t bytes)
{
    gpu_copy_on(at->stream, at->pinned, at->on_device, bytes);
    gpu_synchronize(at->stream);
}

static void to_device(struct places *at, size_t bytes)
{
    gpu_copy_on(at->stream, at->on_device, at->pinned, bytes);
    gpu_synchronize(at->stream);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What is timed, in the order of its turns, and what follows from a round. */
enum column { STAGED, OUT, HOST, IN, PARTS, LONGEST_PART, COLUMNS = LONGEST_PART + 1 };

static const timed_fn timed[] = {on_device, to_host, on_host, to_device};

/* In microseconds, all members beginning together. */
static double measure(struct places *at, enum column column, size_t bytes)
{
    check_ok(tutti_barrier(at->world, NULL, NULL));
    const double began = now_us();

    timed[column](at, bytes);
    return now_us() - began;
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

/* Medians of times; behind these the staged call in relation to the sum of its parts, and to the longest. */
static void measure_rounds(struct places *at, size_t bytes, double ret_medians[COLUMNS])
{
    const int rounds = bytes > 1 << 20 ? 9 : ROUNDS_MAX;
    static double values[COLUMNS][ROUNDS_MAX];

    for (int round = -1; round < rounds; round++) { /* the first one allocates */
        double us[COLUMNS];

        for (enum column column = STAGED; column <= IN; column++)
            us[column] = measure(at, column, bytes);
        us[PARTS] = us[STAGED] / (us[OUT] + us[HOST] + us[IN]);
        us[LONGEST_PART] = us[STAGED] / max_of(us[HOST], max_of(us[OUT], us[IN]));
        for (int i = 0; i < COLUMNS && round >= 0; i++)
            values[i][round] = us[i];
    }
    for (int i = 0; i < COLUMNS; i++) {
        qsort(values[i], (size_t)rounds, sizeof values[i][0], compare);
        ret_medians[i] = values[i][rounds / 2];
    }
}

RANK_CASE(staging_is_measured)
{
    static const size_t lengths[] = {8, 4096, 65536, 1 << 20, 16 << 20, LONGEST};
    struct places at = {0};

    gpu_use(rank % gpu_count());
    at.world = rank_init(NULL);
    at.stream = gpu_stream();
    at.on_device = gpu_allocate(LONGEST);
    at.on_host = calloc(1, LONGEST);
    at.pinned = gpu_allocate_pinned(LONGEST);
    gpu_write(at.on_device, at.on_host, LONGEST);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double m[COLUMNS];

        measure_rounds(&at, lengths[i], m);
        if (rank == 0)
            printf(
                "# %d ranks, %8zu B: on the GPU %9.1f us; copy to the host %8.1f us, on the host "
                "%9.1f us, copy to the GPU %8.1f us; %.2f of the sum, %.2f of the longest\n",
                size, lengths[i], m[STAGED], m[OUT], m[HOST], m[IN], m[PARTS], m[LONGEST_PART]);
    }
    fflush(stdout);
    check_ok(tutti_group_destroy(at.world));
    gpu_free_pinned(at.pinned);
    gpu_free(at.on_device);
    gpu_stream_free(at.stream);
    free(at.on_host);
}
