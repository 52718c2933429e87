/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks with tensors on GPUs, of which one, TUTTI_TEST_VICTIM, is about to be killed or stopped, aborts the group or has an
 * engine that fails. Each has a GPU of its own.
 */
#include <string.h>

#include "harness/gpu.h"
#include "rank/nccl_counts.h"
#include "rank_tell.h"

enum { COUNT = 1000, SIZE_MAX_HERE = 8, FOR_EVER_MS = 60000 };

static tutti_tensor vector(int64_t count, int64_t *ret_shape)
{
    tutti_tensor tensor =
        tutti_tensor_1d(gpu_allocate((size_t)count * sizeof(float)), TUTTI_F32, ret_shape, count);

    tensor.device = gpu_device();
    return tensor;
}

/* TUTTI_TEST_CALL: a call of NCCL's, a group of its messages, or a reduction. */
static tutti_status start(tutti_group *world, const tutti_options *options, tutti_work **ret_work)
{
    static int64_t shapes[2], counts[SIZE_MAX_HERE];
    const char *call = getenv("TUTTI_TEST_CALL");
    const tutti_tensor one = vector(COUNT, &shapes[0]), other = vector(COUNT, &shapes[1]);
    const int size = tutti_group_size(world);

    for (int r = 0; r < size; r++)
        counts[r] = COUNT / size;
    return strcmp(call, "all_reduce") == 0
               ? tutti_all_reduce(world, &one, TUTTI_SUM, options, ret_work)
               : tutti_all_to_all_v(world, &one, counts, NULL, &other, counts, NULL, options,
                                    ret_work);
}

/* The stream of each goes on, and then all say what came of their work. */
RANK_CASE(a_call_is_on_the_streams)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_work *work;

    (void)size;
    gpu_use(rank % gpu_count());
    tutti_group *world = rank_init(NULL);
    options.stream = gpu_stream();
    options.timeout_ms = 20000;
    require_ok(start(world, &options, NULL));
    gpu_synchronize(options.stream);
    options.timeout_ms = number_of("TUTTI_TEST_CALL_MS", 20000);
    if (rank == victim() && number_of("TUTTI_TEST_STAYS", 0)) {
        rank_point("running");
        rank_sleep_ms(FOR_EVER_MS);
        return;
    }
    if (rank == victim() && number_of("TUTTI_TEST_ABORTS", 0)) {
        rank_sleep_ms(100);
        tell(tutti_group_abort(world, "enough") ? TUTTI_ERR_INTERNAL : TUTTI_ERR_ABORTED);
    } else {
        require_ok(start(world, &options, &work));
        rank_point("running");
        gpu_synchronize(options.stream);
        tell(tutti_work_wait(work, 0));
        tutti_work_free(work);
    }
    (void)tutti_group_destroy(world);
    rank_point("left");
}

/* Its NCCL stays in the making of the communicator. */
RANK_CASE(a_communicator_is_made)
{
    const tutti_init_options options = {.struct_size = sizeof options,
                                        .timeout_ms = number_of("TUTTI_TEST_CALL_MS", 20000)};
    tutti_group *world = NULL;

    (void)rank;
    (void)size;
    rank_point("running");
    tell(tutti_init(&options, &world));
    check(!world);
    rank_point("left");
}

/* ---- calls that differ ---- */

enum { KINDS = 5, GROUPS_MAX = 100, FEW_GROUPS = 10 };

struct differing {
    tutti_group *group;
    tutti_work *work;
    void *stream;
    tutti_tensor tensor;
    int64_t shape, start_ns;
    float on_host[COUNT];
};

/* What ranks 0 and 1 differ in, and what the words tell of it. */
static const char *const kinds[KINDS] = {"10 x f32", "max", "i32", "root 1", "tensors on a device"};

/* So that the call in which ranks differ is not the first of its group. */
static void make_equal_calls(tutti_group *group, void *stream)
{
    enum { CALLS = 2 };
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;
    const tutti_tensor tensor = vector(COUNT, &shape);

    options.stream = stream;
    for (int i = 0; i < CALLS; i++)
        require_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, &options, NULL));
}

static void start_differing(struct differing *d, int kind, bool differs)
{
    const bool roots = kind == 3;
    tutti_options on = TUTTI_OPTIONS_INIT;
    const tutti_options *options = &on;

    on.stream = d->stream;
    d->tensor = vector(COUNT, &d->shape);
    if (differs && kind == 0)
        d->shape = 10;
    if (differs && kind == 2)
        d->tensor.dtype = TUTTI_I32;
    if (differs && kind == 4) {
        d->tensor = tutti_tensor_1d(d->on_host, TUTTI_F32, &d->shape, COUNT);
        options = NULL;
    }
    d->start_ns = rank_now_ns();
    require_ok(roots ? tutti_broadcast(d->group, &d->tensor, differs, options, &d->work)
                     : tutti_all_reduce(d->group, &d->tensor,
                                        differs && kind == 1 ? TUTTI_MAX : TUTTI_SUM, options,
                                        &d->work));
}

/* By the work, or, where NCCL did not wait for ever, by the end of the group. Its last calls are compared where members
 * leave within half a second, so they do that together. */
static int64_t find_difference(tutti_group *world, struct differing *d, int kind)
{
    const tutti_options soon = {.struct_size = sizeof soon, .timeout_ms = 20000};
    char words[1024];
    tutti_status status = tutti_work_wait(d->work, 0);

    snprintf(words, sizeof words, "%s", tutti_last_error());
    require_ok(tutti_barrier(world, &soon, NULL));
    if (!status) {
        status = tutti_group_destroy(d->group);
        snprintf(words, sizeof words, "%s", tutti_last_error());
    }
    const int64_t took_ms = (rank_now_ns() - d->start_ns) / 1000000;
    check_status(status, TUTTI_ERR_MISMATCH);
    check_contains(words, kinds[kind]);
    if (tutti_work_wait(d->work, 0))
        (void)tutti_group_destroy(d->group);
    tutti_work_free(d->work);
    return took_ms;
}

/* TUTTI_TEST_GROUPS groups, each with one call in which rank 1 differs, all at the same time. */
RANK_CASE(calls_that_differ_are_found)
{
    static struct differing all[GROUPS_MAX];
    const int count = number_of("TUTTI_TEST_GROUPS", FEW_GROUPS);
    int64_t most_ms[KINDS] = {0};

    (void)size;
    gpu_use(rank % gpu_count());
    tutti_group *world = rank_init(NULL);
    require(count <= GROUPS_MAX);
    for (int i = 0; i < count; i++) {
        require_ok(tutti_group_new(world, NULL, 0, NULL, &all[i].group));
        all[i].stream = gpu_stream();
        make_equal_calls(all[i].group, all[i].stream);
    }
    for (int i = 0; i < count; i++)
        start_differing(&all[i], i % KINDS, rank == 1);
    for (int i = 0; i < count; i++) {
        const int64_t took_ms = find_difference(world, &all[i], i % KINDS);

        most_ms[i % KINDS] = took_ms > most_ms[i % KINDS] ? took_ms : most_ms[i % KINDS];
    }
    rank_value("found_ms", "%s: %lld ms; %s: %lld ms; %s: %lld ms; %s: %lld ms; %s: %lld ms",
               kinds[0], (long long)most_ms[0], kinds[1], (long long)most_ms[1], kinds[2],
               (long long)most_ms[2], kinds[3], (long long)most_ms[3], kinds[4],
               (long long)most_ms[4]);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(with_detail_a_difference_is_found_before_the_launch)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;

    (void)size;
    setenv("TUTTI_DEBUG", "DETAIL", 1);
    gpu_use(rank % gpu_count());
    tutti_group *world = rank_init(NULL);
    options.stream = gpu_stream();
    make_equal_calls(world, options.stream);
    const tutti_tensor tensor = vector(rank == 1 ? 10 : COUNT, &shape);
    const int launches = nccl_launches();
    check_status(tutti_all_reduce(world, &tensor, TUTTI_SUM, &options, NULL), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "as #3");
    check_contains(tutti_last_error(), "10 x f32");
    check_eq(nccl_launches(), launches);
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}
