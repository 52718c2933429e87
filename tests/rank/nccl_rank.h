/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of cases over NCCL share: vectors on the GPU, the world, its end. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { COUNT = 300, BLOCKS = 8 };

/* A vector of i32 on the device of this rank. */
struct vector {
    int32_t *on_device, host[COUNT * BLOCKS];
    int64_t shape;
    tutti_tensor tensor;
};

static inline void fill(struct vector *v, int32_t value)
{
    for (int64_t i = 0; i < v->shape; i++)
        v->host[i] = value;
    gpu_write(v->on_device, v->host, (size_t)v->shape * sizeof *v->host);
}

static inline void make(struct vector *v, int64_t count, int32_t value)
{
    v->on_device = gpu_allocate((size_t)count * sizeof *v->host);
    v->tensor = tutti_tensor_1d(v->on_device, TUTTI_I32, &v->shape, count);
    v->tensor.device = gpu_device();
    fill(v, value);
}

/* Its elements 0, 2, 4 …; `shape` lives as long as the tensor. */
static inline tutti_tensor every_second(const struct vector *v, int64_t *shape)
{
    static const int64_t strides[] = {2};
    tutti_tensor strided = v->tensor;

    *shape = v->shape / 2;
    strided.shape = shape;
    strided.strides = (int64_t *)strides;
    return strided;
}

/* Element `at`, after all that is on the stream. */
static inline int32_t element(struct vector *v, void *stream, int64_t at)
{
    gpu_synchronize(stream);
    gpu_read(v->host, v->on_device, (size_t)v->shape * sizeof *v->host);
    return v->host[at];
}

static inline tutti_group *begin(int rank, int rank_count, void **ret_stream,
                                 tutti_options *ret_options)
{
    tutti_group *world;
    char host[16];

    gpu_use(rank % gpu_count());
    if (gpu_count() <
        rank_count) { /* NCCL takes those that share a GPU for such of several hosts */
        snprintf(host, sizeof host, "rank%d", rank);
        setenv("NCCL_HOSTID", host, 1);
    }
    world = rank_init(NULL);
    *ret_stream = gpu_stream();
    *ret_options = (tutti_options)TUTTI_OPTIONS_INIT;
    ret_options->stream = *ret_stream;
    return world;
}

/* The first call of NCCL, which connects the members. It is over. */
static inline void call_once(tutti_group *world, struct vector *v, int rank, tutti_reduce_op op,
                             const tutti_options *options)
{
    make(v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v->tensor, op, options, NULL));
    gpu_synchronize(options->stream);
}

/* The test kills rank 1 when all have come here (kill_rank_1()): one that dies earlier may be the reason for
 * which another rank's last call ends. */
static inline void outlive_rank_1(int rank)
{
    rank_point("before_death");
    if (rank == 1)
        rank_await("death");
}

/* Waits, by a call that nobody makes, until the group has ended; the others' streams go on meanwhile. */
static inline void expect_end(tutti_group *world, void *stream, tutti_status status,
                              const char *words)
{
    gpu_synchronize(stream);
    check_status(tutti_group_destroy(world), status);
    check_contains(tutti_last_error(), words);
    rank_value("words", "%s", tutti_last_error());
}
