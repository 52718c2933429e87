/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of cases with registered memory of GPUs share. */
#pragma once

#include "nccl_counts.h"
#include "nccl_rank.h"

enum { BYTES = 1 << 16, INTS = BYTES / 4 };

/* A real NCCL counts nothing. */
static inline bool counts(const char *name, int wanted)
{
    const int count = nccl_count(name);

    return count < 0 || check_eq(count, wanted);
}

static inline bool has_left(int allocated, int registered)
{
    return counts("standin_nccl_allocated", allocated) &&
           counts("standin_nccl_registered", registered);
}

/* Ends of communicators free on their own thread. */
static inline void expect_nothing_left(void)
{
    for (int i = 0; i < 5000 && nccl_count("standin_nccl_allocated") > 0; i++)
        rank_sleep_ms(1);
    has_left(0, 0);
}

/* A vector of i32 that fills memory of this rank's GPU. */
static inline void lay_in(struct vector *v, void *memory, int64_t count, int32_t value)
{
    v->on_device = memory;
    v->tensor = tutti_tensor_1d(memory, TUTTI_I32, &v->shape, count);
    v->tensor.device = gpu_device();
    fill(v, value);
}

static inline tutti_memory *allocate(tutti_group *group)
{
    tutti_memory *memory = NULL;

    require_ok(tutti_memory_allocate_on(group, gpu_device(), BYTES, &memory));
    return memory;
}

static inline tutti_memory *register_own(tutti_group *group, void *address)
{
    tutti_memory *memory = NULL;

    require_ok(tutti_memory_register(group, address, BYTES, &memory));
    check(tutti_memory_address(memory) == address);
    check_eq(tutti_memory_bytes(memory), BYTES);
    return memory;
}

/* Sums the ranks in `memory`, and in a part of it. */
static inline void sum_in(tutti_group *group, int rank, int size, void *memory,
                          tutti_options *options)
{
    static struct vector v;

    lay_in(&v, memory, COUNT, rank);
    check_ok(tutti_all_reduce(group, &v.tensor, TUTTI_SUM, options, NULL));
    check_eq(element(&v, options->stream, COUNT - 1), size * (size - 1) / 2);
    lay_in(&v, (int32_t *)memory + INTS - COUNT, COUNT, rank);
    check_ok(tutti_all_reduce(group, &v.tensor, TUTTI_MAX, options, NULL));
    check_eq(element(&v, options->stream, COUNT - 1), size - 1);
}

/* What failed has left nothing, and the group works with memory as ever. */
static inline void end_as_ever(tutti_group *world, int rank, int size, tutti_options *options)
{
    has_left(0, 0);
    sum_in(world, rank, size, tutti_memory_address(allocate(world)), options);
    check_ok(tutti_group_destroy(world));
}

static inline void refuse(tutti_status status, tutti_status wanted, const char *words)
{
    check_status(status, wanted);
    check_contains(tutti_last_error(), words);
}
