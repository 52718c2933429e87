/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs that a tensor lies on a GPU: an all_reduce of such a tensor, of the same tensor in host memory, and the
 * two copies between device and pinned memory. Rank 0 writes a line that begins with # for each length, with medians.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { REPEATS_MAX = 200, LONGEST = 64 << 20 };

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

/* The median in microseconds, all members beginning together. */
static double measure(struct places *at, timed_fn timed, size_t bytes)
{
    const int repeats = bytes > 1 << 20 ? 7 : REPEATS_MAX;
    double us[REPEATS_MAX];

    timed(at, bytes); /* the first one allocates */
    for (int i = 0; i < repeats; i++) {
        check_ok(tutti_barrier(at->world, NULL, NULL));
        const double began = now_us();
        timed(at, bytes);
        us[i] = now_us() - began;
    }
    qsort(us, (size_t)repeats, sizeof *us, compare);
    return us[repeats / 2];
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
        const double device = measure(&at, on_device, lengths[i]),
                     host = measure(&at, on_host, lengths[i]),
                     out = measure(&at, to_host, lengths[i]),
                     in = measure(&at, to_device, lengths[i]);

        if (rank == 0)
            printf("# %d ranks, %8zu B: all_reduce on the GPU %9.1f us, on the host %9.1f us, copy "
                   "to the host "
                   "%8.1f us, to the GPU %8.1f us\n",
                   size, lengths[i], device, host, out, in);
    }
    fflush(stdout);
    check_ok(tutti_group_destroy(at.world));
    gpu_free_pinned(at.pinned);
    gpu_free(at.on_device);
    gpu_stream_free(at.stream);
    free(at.on_host);
}
