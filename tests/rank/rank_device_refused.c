/* SPDX-License-Identifier: Apache-2.0 */
/* What a program hears where there is no driver, or where a GPU tensor cannot be used; and that its group goes on. */
#include <stdlib.h>
#include <string.h>

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
