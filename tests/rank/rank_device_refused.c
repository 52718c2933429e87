/* SPDX-License-Identifier: Apache-2.0 */
/* What a program hears where there is no driver, or where a GPU tensor cannot be used; and that its group goes on. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/gpu.h"
#include "harness/rank.h"

static const char missing[] = "/nonexistent/libcuda.so.1";

/* A tensor of host memory that says it lies on a GPU. */
static tutti_tensor pretended(int32_t *data, int64_t *shape)
{
    tutti_tensor tensor = tutti_tensor_1d(data, TUTTI_I32, shape, 1);

    tensor.device = (tutti_device){TUTTI_DEVICE_CUDA, 0};
    return tensor;
}

static void sum_on_hosts(tutti_group *world, int size)
{
    int32_t one = 1;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&one, TUTTI_I32, &shape, 1);

    check_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    check_eq(one, size);
}

RANK_CASE(without_a_driver_a_gpu_tensor_is_refused_and_the_group_goes_on)
{
    tutti_group *world;
    int32_t data = 1;
    int64_t shape;
    tutti_tensor tensor = pretended(&data, &shape);

    setenv("TUTTI_CUDA", missing, 1);
    world = rank_init(NULL);
    for (int i = 0; i < 2; i++) { /* the second time, too */
        check(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL) != TUTTI_OK);
        check_contains(tutti_last_error(), missing);
        check_contains(tutti_last_error(), "Install NVIDIA's driver");
        check(tutti_send(world, &tensor, (rank + 1) % size, 1, NULL) != TUTTI_OK);
        check_contains(tutti_last_error(), "no CUDA driver");
    }
    sum_on_hosts(world, size);
    check_ok(tutti_group_destroy(world));
}

/* TUTTI_BACKEND begins with `cuda:`. */
RANK_CASE(a_rank_without_a_driver_is_named_to_all_where_gpus_are_asked_for)
{
    tutti_group *world;

    if (rank == 1)
        setenv("TUTTI_CUDA", missing, 1);
    check(tutti_init(NULL, &world) != TUTTI_OK);
    check_contains(tutti_last_error(), "rank 1 cannot take part");
    check_contains(tutti_last_error(), "no CUDA driver");
}

static tutti_status sum_on_gpu(tutti_group *world, void *memory, void *stream)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(memory, TUTTI_I32, &shape, 1);

    tensor.device = gpu_device();
    options.stream = stream;
    return tutti_all_reduce(world, &tensor, TUTTI_SUM, &options, NULL);
}

/* The child is a member of a world of its own. */
static void use_gpu_in_child(void *memory, void *stream)
{
    static const char words[] = "cuda was opened before this process was forked";
    tutti_init_options alone = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;

    alone.world_size = 1;
    require_ok(tutti_store_open_hash(&alone.store));
    world = rank_init(&alone);
    for (int i = 0; i < 2; i++) { /* the second time, too */
        check_status(sum_on_gpu(world, memory, stream), TUTTI_ERR_UNSUPPORTED);
        check_contains(tutti_last_error(), words);
        check_contains(tutti_last_error(), "start the child by exec");
    }
    sum_on_hosts(world, 1); /* the group goes on */
    check_ok(tutti_group_destroy(world));
    alone.device = "cuda";
    check_status(tutti_init(&alone, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), words);
    tutti_store_unref(alone.store);
}

RANK_CASE(a_forked_child_is_refused_the_gpu_and_its_parent_goes_on)
{
    tutti_group *world;
    int32_t one = 1, sum = 0;
    int how = -1;

    gpu_use(rank % gpu_count());
    world = rank_init(NULL);
    void *memory = gpu_allocate(sizeof one), *stream = gpu_stream();
    gpu_write(memory, &one, sizeof one);
    require_ok(sum_on_gpu(world, memory, stream)); /* opens the driver */
    gpu_synchronize(stream);
    const pid_t child = fork();
    if (child == 0) {
        rank_search_no_leaks(); /* what threads hold that it has not looks like a leak */
        use_gpu_in_child(memory, stream);
        rank_end(); /* exit(3), which leaves the parent's driver as it is */
    }
    check_eq(waitpid(child, &how, 0), child);
    check(WIFEXITED(how) && !WEXITSTATUS(how));
    require_ok(sum_on_gpu(world, memory, stream));
    gpu_synchronize(stream);
    gpu_read(&sum, memory, sizeof sum);
    check_eq(sum, size * size);
    check_ok(tutti_group_destroy(world));
}
