/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPU a rank has, in the world and in groups that are made from it; what of its memory cannot be registered; and
 * what wrappers hear.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { COUNT = 1000 };

/* Sums a tensor on the rank's GPU over the group, whose members each bring 1. */
static void sum_in(tutti_group *group)
{
    int32_t host[COUNT], *on_device = gpu_allocate(sizeof host);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(on_device, TUTTI_I32, &shape, COUNT);

    for (int i = 0; i < COUNT; i++)
        host[i] = 1;
    gpu_write(on_device, host, sizeof host);
    tensor.device = gpu_device();
    check_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    gpu_read(host, on_device, sizeof host);
    check_eq(host[0], tutti_group_size(group));
    check_eq(host[COUNT - 1], tutti_group_size(group));
    gpu_free(on_device);
}

static void sum_in_group_of(tutti_group *parent, const int32_t *ranks, int32_t n)
{
    tutti_group *group;

    require_ok(tutti_group_new(parent, ranks, n, NULL, &group));
    if (!group)
        return;
    sum_in(group);
    check_ok(tutti_group_destroy(group));
}

/* Local ranks of these groups are others than those of the world. */
RANK_CASE(groups_made_from_the_world_use_its_gpu)
{
    const int32_t own[1] = {rank}, odd[2] = {1, 3}, turned[2] = {3, 0};
    tutti_group *world;

    gpu_use(rank % gpu_count());
    world = rank_init(NULL);
    check_eq(size, 4);
    sum_in_group_of(world, own, 1);
    sum_in_group_of(world, odd, 2);
    sum_in(world);
    sum_in_group_of(world, turned, 2);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(memory_that_a_gpu_uses_cannot_be_registered)
{
    enum { BYTES = 1 << 16 };
    tutti_memory *memory;
    tutti_group *world;

    gpu_use(rank % gpu_count());
    world = rank_init(NULL);
    sum_in(world);
    check_status(tutti_memory_register(world, gpu_allocate(BYTES), BYTES, &memory),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "cannot be registered");
    check_status(tutti_memory_register(world, gpu_allocate_pinned(BYTES), BYTES, &memory),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the driver of cuda knows the memory");
    sum_in(world);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_trace_tells_calls_whose_tensors_are_on_a_gpu)
{
    static char text[1 << 16];
    const char *folder = getenv("TMPDIR");
    char path[512];

    require(folder);
    setenv("TUTTI_WRAP", "trace", 1);
    setenv("TUTTI_TRACE_DIR", folder, 1);
    gpu_use(rank % gpu_count());
    tutti_group *world = rank_init(NULL);
    check_ok(tutti_barrier(world, NULL, NULL));
    sum_in(world);
    check_ok(tutti_group_destroy(world));
    snprintf(path, sizeof path, "%s/tutti-trace.%d.json", folder, rank);
    FILE *file = fopen(path, "re");
    require(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    check_contains(text, "\"name\":\"barrier\"");
    const char *staged = strstr(text, "\"staged\":true");
    check(staged && staged > strstr(text, "\"name\":\"all_reduce\""));
    check(staged && !strstr(staged + 1, "\"staged\":true"));
}
