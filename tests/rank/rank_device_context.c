/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on GPUs in a program with a current context of its own. */
#include <string.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { COUNT = 1000, PADDED = 2 * COUNT };

static void *own;

/* Each function of tutti leaves the context that was current. */
#define keeps(call)                                                                                \
    do {                                                                                           \
        require_ok(call);                                                                          \
        check(gpu_context() == own);                                                               \
    } while (0)

struct tensors {
    tutti_tensor plain, strided, other;
};

static void call_all(tutti_group *world, const struct tensors *t, void *stream, int next,
                     int before)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_reduce_op op;
    tutti_work *works[2];
    int64_t one = 1;
    tutti_tensor factor = t->plain;

    options.stream = stream;
    factor.shape = &one;
    keeps(tutti_all_reduce(world, &t->plain, TUTTI_MAX, NULL, NULL));
    keeps(tutti_all_reduce(world, &t->strided, TUTTI_MAX, &options, NULL));
    keeps(tutti_reduce_op_premul(&factor, &op));
    keeps(tutti_all_reduce(world, &t->plain, TUTTI_MAX, &options, &works[0]));
    keeps(tutti_work_wait_stream(works[0], stream));
    keeps(tutti_work_wait(works[0], 0));
    tutti_work_free(works[0]);
    keeps(tutti_isend(world, &t->plain, next, 1, &options, &works[0]));
    keeps(tutti_irecv(world, &t->other, before, 1, &options, &works[1]));
    keeps(tutti_work_wait_all(works, 2, 0, NULL));
    tutti_work_free(works[0]);
    tutti_work_free(works[1]);
    keeps(tutti_batch_begin(world));
    keeps(tutti_broadcast(world, &t->plain, 0, &options, NULL));
    keeps(tutti_batch_end(world, NULL));
    tutti_reduce_op_free(op);
    check(gpu_context() == own);
}

/* The primary context, in which tutti works, reaches neither memory nor streams of another. */
static void refuse_own(tutti_group *world)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;
    void *memory = gpu_allocate(PADDED * sizeof(int32_t));
    tutti_tensor tensor = tutti_tensor_1d(memory, TUTTI_I32, &shape, PADDED);

    tensor.device = gpu_device();
    check_status(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "memory of a context of the program's own");
    tensor.device.type = TUTTI_DEVICE_CUDA_HOST;
    tensor.data = gpu_allocate_pinned(PADDED * sizeof(int32_t));
    options.stream = gpu_stream();
    check_status(tutti_all_reduce(world, &tensor, TUTTI_SUM, &options, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the stream belongs to a context of the program's own");
    check(gpu_context() == own);
}

RANK_CASE(a_programs_own_current_context_stays_after_each_call)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const int64_t extents[2] = {COUNT, 1}, steps[2] = {2, 1};
    int32_t host[PADDED], got[PADDED];
    tutti_group *world;
    int64_t shape;

    gpu_use(rank % gpu_count());
    void *stream = gpu_stream(), *memory = gpu_allocate(sizeof host), *primary = gpu_context();
    for (int i = 0; i < PADDED; i++)
        host[i] = rank + i;
    gpu_write(memory, host, sizeof host);
    struct tensors t = {.plain = tutti_tensor_1d(memory, TUTTI_I32, &shape, PADDED)};
    t.plain.device = gpu_device();
    t.strided = t.other = t.plain;
    t.strided.ndim = 2;
    t.strided.shape = extents;
    t.strided.strides = steps;
    t.other.data = gpu_allocate(sizeof host);
    gpu_use_own_context();
    own = gpu_context();
    check(own != primary);
    keeps(tutti_init(NULL, &world));
    call_all(world, &t, stream, next, before);
    refuse_own(world);
    keeps(tutti_group_destroy(world));
    gpu_use(rank % gpu_count());
    gpu_synchronize(stream);
    gpu_synchronize(NULL);
    gpu_read(got, memory, sizeof got);
    for (int i = 0; i < PADDED; i++)
        host[i] = size - 1 + i;
    check(!memcmp(got, host, sizeof got));
}
