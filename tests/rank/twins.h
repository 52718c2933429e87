/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on a GPU, each with one in host memory that has to end with the same bits. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/gpu.h"
#include "harness/rank.h"

/* A tensor on the GPU and one in host memory that begin with the same elements. */
struct twins {
    float *on_device, *on_host, *read;
    int64_t shape, count;
    tutti_tensor device, host;
};

static inline void twins_fill(struct twins *t, int salt)
{
    for (int64_t i = 0; i < t->count; i++)
        t->on_host[i] = (float)((i * 2654435761U + (uint32_t)salt * 40503U) % 100003) / 977.0F;
    gpu_write(t->on_device, t->on_host, (size_t)t->count * sizeof *t->on_host);
}

static inline void twins_make(struct twins *t, int64_t count, int salt)
{
    const size_t bytes = (size_t)count * sizeof *t->on_host;

    t->count = count;
    t->on_device = gpu_allocate(bytes);
    t->on_host = malloc(bytes);
    t->read = malloc(bytes);
    require(t->on_host && t->read);
    t->host = tutti_tensor_1d(t->on_host, TUTTI_F32, &t->shape, count);
    t->device = t->host;
    t->device.data = t->on_device;
    t->device.device = gpu_device();
    twins_fill(t, salt);
}

static inline void twins_free(struct twins *t)
{
    gpu_free(t->on_device);
    free(t->on_host);
    free(t->read);
}

static inline void twins_check(struct twins *t, const char *what)
{
    int64_t i = 0;

    gpu_read(t->read, t->on_device, (size_t)t->count * sizeof *t->read);
    while (i < t->count && !memcmp(&t->read[i], &t->on_host[i], sizeof *t->read))
        i++;
    rank_check(RANK_PLACE, i == t->count, "%s: element %lld is %g on the GPU and %g on the host",
               what, (long long)i, i < t->count ? (double)t->read[i] : 0,
               i < t->count ? (double)t->on_host[i] : 0);
}

static inline tutti_group *twins_begin(int rank)
{
    gpu_use(rank % gpu_count());
    return rank_init(NULL);
}
