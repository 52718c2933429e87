/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of GPUs that something still uses, or that cannot be given back at once. */
#include <pthread.h>

#include "nccl_memory.h"

/* ---- a group that fails while another thread frees ---- */

static void *free_it(void *memory)
{
    tutti_status status;

    while ((status = tutti_memory_free(memory)) == TUTTI_ERR_BUSY)
        ;
    check_ok(status);
    return NULL;
}

/* Rank 0 makes no call, so the operation of rank 1 hangs on its stream until the abort. */
static void abort_meanwhile(tutti_group *world, tutti_group *group, int rank,
                            tutti_options *options)
{
    static struct vector v;
    const int launches = nccl_launches();
    tutti_work *work = NULL;
    pthread_t thread;
    tutti_memory *memory = allocate(group);

    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    if (rank)
        check_ok(tutti_all_reduce(group, &v.tensor, TUTTI_SUM, options, &work));
    while (rank && nccl_launches() == launches)
        rank_sleep_ms(1);
    check_ok(tutti_barrier(world, NULL, NULL));
    require(!pthread_create(&thread, NULL, free_it, memory));
    rank_sleep_ms(10);
    if (!rank)
        check_ok(tutti_group_abort(group, "the test"));
    else
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
    tutti_work_free(work);
    pthread_join(thread, NULL);
    gpu_synchronize(options->stream);
    check_status(tutti_group_destroy(group), TUTTI_ERR_ABORTED);
}

RANK_CASE(memory_is_freed_by_a_thread_while_the_group_is_aborted)
{
    enum { ROUNDS = 10 };
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int i = 0; i < ROUNDS; i++) {
        tutti_group *group = NULL;

        require_ok(tutti_group_split(world, 0, rank, NULL, &group));
        abort_meanwhile(world, group, rank, &options);
    }
    expect_nothing_left();
    check_ok(tutti_group_destroy(world));
}

/* ---- calls that are not complete ---- */

/* Rank 1 comes to the first call once rank 0 has tried, and the second one waits for its turn behind it. */
RANK_CASE(memory_is_busy_while_a_call_on_it_is_queued)
{
    static struct vector v;
    tutti_options options;
    void *stream;
    tutti_work *first = NULL, *second = NULL;
    int32_t one = 1, said = 0;
    int64_t shape;
    const tutti_tensor host = tutti_tensor_1d(&one, TUTTI_I32, &shape, 1);
    const tutti_tensor word = tutti_tensor_1d(&said, TUTTI_I32, &shape, 1);
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);

    lay_in(&v, tutti_memory_address(memory), COUNT, rank);
    if (rank)
        require_ok(tutti_recv(world, &word, 0, 3, NULL, NULL));
    require_ok(tutti_all_reduce(world, &host, TUTTI_SUM, NULL, &first));
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &second));
    if (rank == 0)
        refuse(tutti_memory_free(memory), TUTTI_ERR_BUSY, "wait for their works");
    for (int to = 1; rank == 0 && to < size; to++)
        require_ok(tutti_send(world, &word, to, 3, NULL));
    check_ok(tutti_work_wait(first, 0));
    check_ok(tutti_work_wait(second, 0));
    tutti_work_free(first);
    tutti_work_free(second);
    check_eq(element(&v, stream, COUNT - 1), size * (size - 1) / 2);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

/* ---- streams that wait for works ---- */

/* A message to this rank itself, which nobody has sent yet. The stream waits for it. */
static tutti_work *wait_on(tutti_group *group, int rank, void *stream)
{
    static struct vector v;
    tutti_work *work = NULL;

    make(&v, 4, -1);
    require_ok(tutti_irecv(group, &v.tensor, rank, 1, NULL, &work));
    require_ok(tutti_work_wait_stream(work, stream));
    return work;
}

static void send_it(tutti_group *group, int rank)
{
    static int32_t values[4];
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_I32, &shape, 4);

    check_ok(tutti_send(group, &tensor, rank, 1, NULL));
}

RANK_CASE(memory_is_busy_while_a_stream_waits_for_a_work)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_memory *memory = allocate(world);
    tutti_work *work = wait_on(world, rank, stream);

    refuse(tutti_memory_free(memory), TUTTI_ERR_BUSY, "a stream waits for a work");
    send_it(world, rank);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    gpu_synchronize(stream);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

struct late {
    tutti_group *group;
    int rank;
};

static void *send_late(void *user)
{
    const struct late *late = user;

    rank_sleep_ms(1500);
    send_it(late->group, late->rank);
    return NULL;
}

RANK_CASE(a_group_ends_when_no_stream_waits_for_a_work)
{
    tutti_options options;
    void *stream;
    pthread_t thread;
    tutti_group *group = NULL, *world = begin(rank, size, &stream, &options);
    struct late late = {world, rank};

    require_ok(tutti_group_split(world, 0, rank, NULL, &group));
    allocate(group);
    tutti_work *work = wait_on(world, rank, stream);
    require(!pthread_create(&thread, NULL, send_late, &late));
    check_ok(tutti_group_destroy(group));
    pthread_join(thread, NULL);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    gpu_synchronize(stream);
    has_left(0, 0);
    check_ok(tutti_group_destroy(world));
}

/* ---- members that cannot register, while calls are on streams ---- */

static struct gpu_hold *sum_behind_hold(tutti_group *world, int rank, tutti_options *options)
{
    static struct vector v;

    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, options, NULL));
    gpu_synchronize(options->stream);
    struct gpu_hold *hold = gpu_hold(options->stream);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, options, NULL));
    return hold;
}

RANK_CASE(memory_that_one_member_refused_can_be_registered_again)
{
    tutti_options options;
    void *stream;
    tutti_memory *memory = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *right = gpu_allocate(BYTES);
    struct gpu_hold *hold = sum_behind_hold(world, rank, &options);

    refuse(tutti_memory_register(world, rank == 1 ? gpu_allocate_pinned(BYTES) : right, BYTES,
                                 &memory),
           TUTTI_ERR_INVALID_ARGUMENT,
           rank == 1 ? "host memory that is pinned" : "rank 1 cannot take part");
    has_left(0, 0);
    memory = register_own(world, right);
    gpu_let_go(hold);
    gpu_synchronize(stream);
    check_ok(tutti_memory_free(memory));
    gpu_free(right);
    check_ok(tutti_group_destroy(world));
}

static void *let_go_late(void *hold)
{
    rank_sleep_ms(300);
    gpu_let_go(hold);
    return NULL;
}

/* NCCL fails on rank 1. */
RANK_CASE(members_give_memory_back_once_calls_are_off_their_streams)
{
    tutti_options options;
    void *stream;
    pthread_t thread;
    tutti_memory *memory = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    struct gpu_hold *hold = sum_behind_hold(world, rank, &options);

    require(!pthread_create(&thread, NULL, let_go_late, hold));
    refuse(tutti_memory_allocate_on(world, gpu_device(), BYTES, &memory), TUTTI_ERR_PLUGIN,
           rank == 1 ? "failed: unhandled" : "rank 1 cannot take part");
    has_left(0, 0);
    pthread_join(thread, NULL);
    gpu_synchronize(stream);
    check_ok(tutti_memory_free(allocate(world)));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(memory_that_cannot_be_given_back_is_named)
{
    tutti_options options;
    void *stream;
    tutti_memory *memory = NULL;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *own = gpu_allocate(BYTES);

    options.timeout_ms = 60000;
    struct gpu_hold *hold = sum_behind_hold(world, rank, &options);
    check_ok(tutti_group_set_timeout(world, 2000));
    refuse(tutti_memory_register(world, own, BYTES, &memory), TUTTI_ERR_PLUGIN,
           rank == 1 ? "failed: unhandled" : "stay with group world until it is destroyed");
    gpu_let_go(hold);
    gpu_synchronize(stream);
    check_ok(tutti_group_destroy(world));
    has_left(0, 0);
    gpu_free(own);
}

/* ---- an abort that does not end ---- */

/* The abort takes 7 s; it is waited for 3 s. */
RANK_CASE(an_abort_that_does_not_end_is_waited_for_once)
{
    enum { PIECES = 3 };
    tutti_options options;
    void *stream;
    tutti_memory *each[PIECES];
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int i = 0; i < PIECES; i++)
        each[i] = register_own(world, gpu_allocate(BYTES));
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the test"));
    while (!tutti_barrier(world, NULL, NULL))
        ;
    const int64_t begun_ns = rank_now_ns();
    for (int i = 0; i < PIECES; i++)
        check_ok(tutti_memory_free(each[i]));
    check(rank_now_ns() - begun_ns < INT64_C(5000000000));
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}
