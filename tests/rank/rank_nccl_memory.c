/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs that is registered with NCCL: made, used, refused, freed, and what is left after failures. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_memory.h"

RANK_CASE(calls_lie_in_memory_that_nccl_allocates)
{
    static struct vector one, all;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);

    check_eq(tutti_memory_bytes(memory), BYTES);
    check_eq(tutti_memory_peers(memory), size - 1);
    has_left(1, 1);
    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    lay_in(&one, tutti_memory_address(memory), COUNT, rank);
    lay_in(&all, (int32_t *)tutti_memory_address(memory) + COUNT, (int64_t)COUNT * size, -1);
    check_ok(tutti_all_gather(world, &one.tensor, &all.tensor, &options, NULL));
    check_eq(element(&all, stream, (int64_t)COUNT * size - 1), size - 1);
    check_str_eq(rank_served_by(world), "nccl all_gather_native");
    counts("standin_nccl_registered_tasks", 3);
    check_ok(tutti_memory_free(memory));
    has_left(0, 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(memory_of_the_program_is_registered_where_it_lies)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    char *own = gpu_allocate(BYTES);
    tutti_memory *memory = register_own(world, own);

    check_eq(tutti_memory_peers(memory), size - 1);
    has_left(0, 1);
    sum_in(world, rank, size, own, &options);
    counts("standin_nccl_registered_tasks", 2);
    check_ok(tutti_memory_free(memory));
    has_left(0, 0);
    sum_in(world, rank, size, own, &options); /* it is the program's as before */
    counts("standin_nccl_registered_tasks", 2);
    gpu_free(own);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(members_may_register_different_sizes_again_and_again)
{
    enum { ROUNDS = 30 };
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int i = 0; i < ROUNDS; i++) {
        tutti_memory *small = NULL, *large = NULL;
        const uint64_t bytes = (uint64_t)BYTES * (uint64_t)(1 + (rank + i) % 3);

        require_ok(tutti_memory_allocate_on(world, gpu_device(), bytes, &large));
        require_ok(tutti_memory_allocate_on(world, gpu_device(), 4, &small));
        check_eq(tutti_memory_bytes(large), bytes);
        sum_in(world, rank, size, tutti_memory_address(large), &options);
        check_ok(tutti_memory_free(rank % 2 ? small : large));
        check_ok(tutti_memory_free(rank % 2 ? large : small));
    }
    has_left(0, 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(host_memory_is_registered_beside_that_of_gpus)
{
    tutti_memory *on_host = NULL, *also = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);

    require_ok(tutti_memory_allocate(world, BYTES, &on_host));
    require_ok(tutti_memory_allocate_on(world, (tutti_device){TUTTI_DEVICE_CPU, 0}, BYTES, &also));
    memset(tutti_memory_address(on_host), 1, BYTES);
    memset(tutti_memory_address(also), 1, BYTES);
    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    check_ok(tutti_memory_free(on_host));
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_memory_free(also));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(memory_is_busy_while_a_call_over_nccl_is_on_its_stream)
{
    static struct vector v;
    tutti_options options;
    struct gpu_hold *hold;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);

    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    hold = gpu_hold(stream);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_MAX, &options, NULL));
    check_status(tutti_memory_free(memory), TUTTI_ERR_BUSY);
    check_contains(tutti_last_error(), "synchronize with their streams");
    gpu_let_go(hold);
    check_eq(element(&v, stream, 0), size - 1);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(what_is_registered_with_nccl_ends_with_the_group)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *own = gpu_allocate(BYTES);

    sum_in(world, rank, size, tutti_memory_address(allocate(world)), &options);
    register_own(world, own);
    has_left(1, 2);
    check_ok(tutti_group_destroy(world));
    has_left(0, 0);
    gpu_free(own);
}

static tutti_group *halves(tutti_group *world, int rank)
{
    tutti_group *half = NULL;

    require_ok(tutti_group_split(world, rank % 2, rank, NULL, &half));
    return half;
}

RANK_CASE(memory_may_be_registered_with_two_groups_over_nccl)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_group *half = halves(world, rank);
    tutti_memory *memory = allocate(world);
    tutti_memory *again = register_own(half, tutti_memory_address(memory));

    sum_in(half, rank / 2, size / 2, tutti_memory_address(memory), &options);
    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    counts("standin_nccl_registered_tasks", 4);
    check_status(tutti_memory_free(memory), TUTTI_ERR_BUSY);
    check_contains(tutti_last_error(), "free that first");
    check_ok(tutti_memory_free(again));
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(half));
    check_ok(tutti_group_destroy(world));
}

/* ---- what is refused ---- */

RANK_CASE(memory_that_nccl_cannot_register_is_refused_in_words)
{
    const tutti_status bad = TUTTI_ERR_INVALID_ARGUMENT;
    tutti_memory *memory = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    char *own = gpu_allocate(BYTES);
    tutti_memory *registered = register_own(world, own);
    tutti_device device = gpu_device();

    device.id = 99;
    refuse(tutti_memory_allocate_on(world, device, BYTES, &memory), bad, "there is no cuda:99");
    device.id = (rank + 1) % gpu_count();
    refuse(tutti_memory_allocate_on(world, device, BYTES, &memory), bad, "is not that of group");
    device.type = TUTTI_DEVICE_CUDA_HOST;
    refuse(tutti_memory_allocate_on(world, device, BYTES, &memory), bad, "memory of device type 3");
    refuse(tutti_memory_allocate_on(world, gpu_device(), 0, &memory), bad, "bytes is 0");
    refuse(tutti_memory_register(world, own, BYTES, &memory), bad, "is registered already");
    refuse(tutti_memory_register(world, own + BYTES / 2, 4, &memory), bad, "registered already");
    refuse(tutti_memory_register(world, gpu_allocate_pinned(BYTES), BYTES, &memory), bad,
           "host memory that is pinned");
    refuse(tutti_memory_register(world, gpu_allocate_managed(BYTES), BYTES, &memory), bad,
           "managed memory");
    gpu_use((rank + 1) % gpu_count());
    refuse(tutti_memory_register(world, gpu_allocate(BYTES), BYTES, &memory), bad,
           "and the group uses");
    gpu_use(rank % gpu_count());
    check(!memory);
    sum_in(world, rank, size, own, &options);
    check_ok(tutti_memory_free(registered));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_member_that_cannot_register_is_named_by_all)
{
    tutti_memory *memory = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *own = rank == 1 ? gpu_allocate_pinned(BYTES) : gpu_allocate(BYTES);

    refuse(tutti_memory_register(world, own, BYTES, &memory), TUTTI_ERR_INVALID_ARGUMENT,
           rank == 1 ? "host memory that is pinned" : "rank 1 cannot take part");
    end_as_ever(world, rank, size, &options);
}

RANK_CASE(host_memory_on_one_member_and_a_gpu_on_another_is_a_mismatch)
{
    tutti_memory *memory = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_device host = {TUTTI_DEVICE_CPU, 0};

    refuse(tutti_memory_allocate_on(world, rank ? gpu_device() : host, BYTES, &memory),
           TUTTI_ERR_MISMATCH, "all members give the same kind");
    end_as_ever(world, rank, size, &options);
}

RANK_CASE(a_child_of_fork_cannot_use_registered_memory_of_gpus)
{
    tutti_memory *memory, *more = NULL;
    tutti_options options;
    void *stream;
    int ended = -1;
    tutti_group *world = begin(rank, size, &stream, &options);

    memory = allocate(world);
    const pid_t child = fork();
    if (!child)
        _exit(tutti_memory_free(memory) != TUTTI_ERR_FORKED ||
              tutti_memory_allocate_on(world, gpu_device(), BYTES, &more) != TUTTI_ERR_FORKED);
    check(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && !WEXITSTATUS(ended));
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

/* ---- without NCCL's functions ---- */

RANK_CASE(without_functions_of_nccl_memory_is_ordinary)
{
    tutti_options options;
    void *stream;
    tutti_memory *none = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    void *own = gpu_allocate(BYTES);

    check_eq(tutti_memory_peers(memory), 0);
    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    refuse(tutti_memory_register(world, own, BYTES, &none),
           getenv("TUTTI_TEST_SHM") ? TUTTI_ERR_INVALID_ARGUMENT : TUTTI_ERR_UNSUPPORTED,
           getenv("TUTTI_TEST_SHM") ? "only where an engine" : "which came with 2.19");
    check_ok(tutti_memory_free(memory));
    allocate(world); /* ends with the group */
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_group_of_one_has_memory_on_its_gpu)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    tutti_memory *own = register_own(world, gpu_allocate(BYTES));

    check_eq(tutti_memory_peers(memory) + tutti_memory_peers(own), 0);
    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    sum_in(world, rank, size, tutti_memory_address(own), &options);
    check_ok(tutti_memory_free(own));
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

/* ---- captures, and other threads ---- */

RANK_CASE(captured_calls_keep_registered_memory_until_the_group_ends)
{
    static struct vector v;
    tutti_memory *inside = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);

    sum_in(world, rank, size, tutti_memory_address(memory), &options);
    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    gpu_capture(stream);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_memory_allocate_on(world, gpu_device(), BYTES, &inside));
    void *graph = gpu_graph(stream);
    gpu_replay(graph, stream);
    check_eq(element(&v, stream, COUNT - 1), size * (size - 1) / 2);
    refuse(tutti_memory_free(memory), TUTTI_ERR_BUSY, "captured into graphs");
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
    has_left(0, 0);
}

static void *free_it(void *memory)
{
    tutti_status status;

    while ((status = tutti_memory_free(memory)) == TUTTI_ERR_BUSY)
        rank_sleep_ms(1);
    check_ok(status);
    return NULL;
}

/* The stand-in takes its time to deregister, and ends the process if two threads use a communicator meanwhile. */
RANK_CASE(calls_over_nccl_wait_while_another_thread_frees_memory)
{
    enum { ROUNDS = 20 };
    tutti_options options;
    pthread_t thread;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    void *own = gpu_allocate(BYTES);

    require(!pthread_create(&thread, NULL, free_it, memory));
    rank_sleep_ms(20 * rank);
    for (int i = 0; i < ROUNDS; i++)
        sum_in(world, rank, size, own, &options);
    pthread_join(thread, NULL);
    has_left(0, 0);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures, on rank 1 ---- */

RANK_CASE(a_failure_of_nccl_to_register_is_told_to_all)
{
    tutti_memory *memory = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    refuse(tutti_memory_allocate_on(world, gpu_device(), BYTES, &memory), TUTTI_ERR_PLUGIN,
           rank == 1 ? "failed: unhandled" : "rank 1 cannot take part");
    if (rank == 1)
        rank_value("words", "%s", tutti_last_error());
    check(!memory);
    end_as_ever(world, rank, size, &options);
}

RANK_CASE(a_gpu_that_has_no_memory_is_told_to_all)
{
    tutti_memory *memory = NULL;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const uint64_t bytes = rank == 1 ? UINT64_C(1) << 40 : BYTES;

    refuse(tutti_memory_allocate_on(world, gpu_device(), bytes, &memory), TUTTI_ERR_NO_MEMORY,
           rank == 1 ? "the GPU has no 1099511627776 bytes" : "rank 1 cannot take part");
    end_as_ever(world, rank, size, &options);
}

RANK_CASE(registered_memory_is_freed_after_a_rank_is_killed)
{
    static struct vector v;
    tutti_options options;
    void *stream;
    tutti_work *work = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    void *own = gpu_allocate(BYTES);
    tutti_memory *registered = register_own(world, own);

    allocate(world);
    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    gpu_synchronize(stream);
    outlive_rank_1(rank);
    if (!tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work))
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_PEER_LOST);
    tutti_work_free(work);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_memory_free(registered));
    gpu_free(own);
    check_status(tutti_memory_allocate_on(world, gpu_device(), BYTES, &memory),
                 TUTTI_ERR_PEER_LOST);
    expect_end(world, stream, TUTTI_ERR_PEER_LOST, "rank 1");
    expect_nothing_left();
}

/* The operation of rank 1 hangs on its stream until the abort. */
RANK_CASE(an_abort_frees_registered_memory)
{
    static struct vector v;
    tutti_options options;
    void *stream;
    tutti_work *work = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    void *own = gpu_allocate(BYTES);

    register_own(world, own);
    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work);
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the test"));
    if (work)
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
    tutti_work_free(work);
    expect_end(world, stream, TUTTI_ERR_ABORTED, "the test");
    gpu_free(own);
    expect_nothing_left();
}
