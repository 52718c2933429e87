/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on GPUs over NCCL: the order of streams, each collective, what NCCL leaves to the core, failures. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_rank.h"

RANK_CASE(a_call_over_nccl_returns_while_its_stream_is_held)
{
    tutti_options options;
    static struct vector v;
    struct gpu_hold *hold;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank + 1);
    hold = gpu_hold(stream);
    for (int i = 0; i < 3; i++)
        check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_MAX, &options, NULL));
    check_str_eq(rank_served_by(world), "nccl all_reduce_native");
    check(!gpu_is_idle(stream));
    gpu_let_go(hold);
    check_eq(element(&v, stream, COUNT - 1), size);
    check_ok(tutti_group_destroy(world));
}

static int64_t thread_cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The test compares the time with what it may take. */
RANK_CASE(a_thousand_calls_are_issued_while_their_stream_is_held)
{
    enum { CALLS = 1000, HELD_MS = 1000 };
    tutti_options options;
    static struct vector v;
    struct gpu_hold *hold;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_MAX, &options, NULL));
    hold = gpu_hold(stream);
    rank_point("issues");
    const int64_t began_ns = rank_now_ns(), began_cpu_us = thread_cpu_us();
    for (int i = 0; i < CALLS; i++)
        require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_MAX, &options, NULL));
    const int64_t cpu_us = thread_cpu_us() - began_cpu_us;
    const int64_t took_us = (rank_now_ns() - began_ns) / 1000;
    rank_point("issued");
    rank_value("issued_us", "%lld", (long long)took_us);
    rank_value("cpu_us", "%lld", (long long)cpu_us);
    if (took_us < HELD_MS * 1000)
        rank_sleep_ms(HELD_MS - (int)(took_us / 1000));
    check(!gpu_is_idle(stream));
    gpu_let_go(hold);
    check_eq(element(&v, stream, COUNT - 1), size - 1);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(every_collective_over_nccl_gives_its_result)
{
    tutti_options options;
    static struct vector one, all, other, sum;
    void *s;
    tutti_group *world = begin(rank, size, &s, &options);
    const int32_t sum_of_ranks = size * (size - 1) / 2, last = size - 1;

    make(&one, COUNT, rank);
    make(&sum, COUNT, -1);
    make(&all, (int64_t)COUNT * size, -1);
    check_ok(tutti_all_reduce_into(world, &one.tensor, &sum.tensor, TUTTI_SUM, &options, NULL));
    check_eq(element(&sum, s, COUNT - 1), sum_of_ranks);
    check_ok(tutti_all_gather(world, &one.tensor, &all.tensor, &options, NULL));
    check_eq(element(&all, s, (int64_t)COUNT * last), last);
    check_ok(tutti_reduce_scatter(world, &all.tensor, &sum.tensor, TUTTI_SUM, &options, NULL));
    check_eq(element(&sum, s, COUNT - 1), size * rank);
    make(&other, (int64_t)COUNT * size, rank);
    check_ok(tutti_all_to_all(world, &other.tensor, &all.tensor, &options, NULL));
    check_eq(element(&all, s, (int64_t)COUNT * last), last);
    check_ok(tutti_broadcast(world, &one.tensor, last, &options, NULL));
    check_eq(element(&one, s, 0), last);
    fill(&one, rank);
    check_ok(tutti_reduce(world, &one.tensor, TUTTI_SUM, 0, &options, NULL));
    check_eq(element(&one, s, 0), rank == 0 ? sum_of_ranks : rank);
    fill(&one, rank);
    check_ok(
        tutti_gather(world, &one.tensor, rank == last ? &all.tensor : NULL, last, &options, NULL));
    if (rank == last)
        check_eq(element(&all, s, (int64_t)COUNT * size - 1), last);
    fill(&all, rank);
    check_ok(
        tutti_scatter(world, rank == last ? &all.tensor : NULL, &sum.tensor, last, &options, NULL));
    check_eq(element(&sum, s, COUNT - 1), last);
    check_str_eq(rank_served_by(world), size == 1 ? "self scatter_alone" : "nccl scatter_native");
    check_ok(tutti_barrier(world, NULL, NULL));
    if (getenv("BARRIER_BY"))
        check_str_eq(rank_served_by(world), getenv("BARRIER_BY"));
    check_ok(tutti_group_destroy(world));
}

/* Block r of a member that gives `first` has r + 1 elements of value first + r. */
static void fill_uneven(struct vector *v, int size, int32_t first)
{
    int at = 0;

    for (int r = 0; r < size; r++)
        for (int i = 0; i <= r; i++)
            v->host[at++] = first + r;
    gpu_write(v->on_device, v->host, (size_t)v->shape * sizeof *v->host);
}

RANK_CASE(blocks_of_different_sizes_go_over_nccl)
{
    tutti_options options;
    static struct vector own, all, other;
    int64_t counts[BLOCKS], same[BLOCKS];
    void *s;
    tutti_group *world = begin(rank, size, &s, &options);
    const int64_t total = size * (size + 1) / 2, before = rank * (rank + 1) / 2;

    for (int r = 0; r < size; r++) {
        counts[r] = r + 1;
        same[r] = rank + 1;
    }
    make(&own, rank + 1, rank);
    make(&all, total, -1);
    check_ok(tutti_all_gather_v(world, &own.tensor, &all.tensor, counts, NULL, &options, NULL));
    check_eq(element(&all, s, total - 1), size - 1);
    check_eq(element(&all, s, before), rank);
    fill_uneven(&all, size, 10);
    check_ok(tutti_reduce_scatter_v(world, &all.tensor, counts, NULL, &own.tensor, TUTTI_SUM,
                                    &options, NULL));
    check_eq(element(&own, s, rank), size * (10 + rank));
    make(&other, (int64_t)size * (rank + 1), -1);
    fill_uneven(&all, size, 100 * rank);
    check_ok(tutti_all_to_all_v(world, &all.tensor, counts, NULL, &other.tensor, same, NULL,
                                &options, NULL));
    check_eq(element(&other, s, (int64_t)size * (rank + 1) - 1), 100 * (size - 1) + rank);
    check_str_eq(rank_served_by(world), "nccl all_to_all_native");
    check_ok(tutti_group_destroy(world));
}

static void larger(void *to, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                   void *user)
{
    const int32_t *x = a, *y = b;
    int32_t *z = to;

    (void)dtype;
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        z[i] = x[i] > y[i] ? x[i] : y[i];
}

RANK_CASE(what_kernels_do_not_do_either_goes_by_the_host)
{
    tutti_options options;
    tutti_reduce_op op;
    static struct vector v;
    int32_t host = rank, *data = &host;
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(data, TUTTI_I32, &shape, 1);
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    require_ok(tutti_reduce_op_create("larger", larger, 0, NULL, &op));
    check_ok(tutti_all_reduce(world, &v.tensor, op, &options, NULL));
    check_str_eq(rank_served_by(world), "shm all_reduce_inline");
    check_eq(element(&v, stream, 7), size - 1);
    check_ok(tutti_all_reduce(world, &on_host, TUTTI_SUM, NULL, NULL));
    check_eq(host, size * (size - 1) / 2);
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(another_stream_waits_for_a_call_that_is_waited_for_next)
{
    tutti_options options;
    static struct vector v;
    struct gpu_hold *hold;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&v, COUNT, 1);
    hold = gpu_hold(stream);
    options.flags = TUTTI_WAITS_NEXT;
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
    check_ok(tutti_work_wait(work, 0));
    check_ok(tutti_work_wait_stream(work, other));
    check(!gpu_is_idle(other));
    gpu_let_go(hold);
    check_eq(element(&v, other, 0), size);
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_call_on_a_held_stream_is_running_in_the_record)
{
    enum { RUNNING = 1, DONE = 2 };
    tutti_options options;
    static struct vector v;
    tutti_record record;
    struct gpu_hold *hold;
    uint32_t count;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    hold = gpu_hold(stream);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    require_ok(tutti_recorder_read(world, &record, sizeof record, 1, &count));
    check_eq(record.state, RUNNING);
    gpu_let_go(hold);
    for (int i = 0; i < 2000 && record.state == RUNNING; i++) {
        rank_sleep_ms(5);
        require_ok(tutti_recorder_read(world, &record, sizeof record, 1, &count));
    }
    check_eq(record.state, DONE);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(host_and_gpu_memory_in_one_call_over_nccl_is_refused)
{
    tutti_options options;
    static struct vector v;
    int32_t host[COUNT];
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(host, TUTTI_I32, &shape, COUNT);
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    check_status(tutti_all_reduce_into(world, &v.tensor, &on_host, TUTTI_SUM, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "needs all of them there");
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    check_eq(element(&v, stream, 0), size * (size - 1) / 2);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(members_with_host_and_gpu_memory_over_nccl_are_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    int64_t shape;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_tensor on_host = tutti_tensor_1d(v.host, TUTTI_I32, &shape, COUNT);

    make(&v, COUNT, rank);
    if (rank == 0)
        (void)tutti_all_reduce(world, &on_host, TUTTI_SUM, NULL, NULL);
    else
        (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "tensors on a device");
}

/* ---- making a group -------------------------------------------------------------------------- */

/* What NCCL is told is not in the environment of a program any more. */
RANK_CASE(the_environment_is_as_before_when_a_group_is_made)
{
    static const char *const lent[] = {"NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_DEBUG_FILE"};
    const char *before[3];
    tutti_options options;
    static struct vector v;
    void *stream;

    for (int i = 0; i < 3; i++)
        before[i] = getenv(lent[i]);
    tutti_group *world = begin(rank, size, &stream, &options);
    for (int i = 0; i < 3; i++)
        check(getenv(lent[i]) == before[i]);
    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    check_eq(element(&v, stream, 0), size * (size - 1) / 2);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_rank_whose_nccl_fails_is_told_in_its_words)
{
    tutti_group *world;

    check_status(tutti_init(NULL, &world), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "rank 1");
    check_contains(tutti_last_error(), "the fault of this stand-in's variables");
    rank_value("words", "%s", tutti_last_error());
}

RANK_CASE(two_ranks_with_one_gpu_are_named)
{
    tutti_group *world;

    setenv("TUTTI_DEVICE", "cuda:0", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "rank 0 and rank 1 use the same GPU");
}

RANK_CASE(a_rank_without_nccl_is_named_by_all)
{
    tutti_group *world;

    if (rank == 1)
        setenv("TUTTI_NCCL", "/nowhere/libnccl.so.2", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "rank 1");
    check_contains(tutti_last_error(), "/nowhere/libnccl.so.2");
}

RANK_CASE(a_rank_with_blocking_functions_of_nccl_is_named_by_all)
{
    tutti_group *world;

    if (rank == 1)
        setenv("NCCL_COMM_BLOCKING", "1", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "rank 1");
    check_contains(tutti_last_error(), "NCCL_COMM_BLOCKING=1");
}

RANK_CASE(another_patch_of_nccl_is_named_by_all)
{
    tutti_group *world;

    if (rank == 1)
        setenv("STANDIN_NCCL_VERSION", "22807", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "members use different engines: rank 0: NCCL 2.28.9; "
                                       "rank 1: NCCL 2.28.7; the names must be equal");
}

RANK_CASE(settings_of_nccl_that_differ_are_named_by_all)
{
    tutti_group *world;

    setenv("NCCL_BUFFSIZE", "1048576", 1);
    if (rank == 1)
        setenv("NCCL_ALGO", "allreduce:tree", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(),
                   "rank 0 has no NCCL_ALGO and rank 1 has NCCL_ALGO=allreduce:tree");
}

RANK_CASE(a_backend_without_messages_beside_nccl_is_refused_in_words)
{
    tutti_group *world;

    check_status(tutti_init(NULL, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(),
                   "TUTTI_BACKEND=cpu:ucc,cuda:nccl: backend ucc carries no messages");
    check_contains(tutti_last_error(), "use cpu:auto");
}

/* Rank 1 never joins its communicator. */
RANK_CASE(a_rank_that_never_joins_is_waited_for_until_the_deadline)
{
    tutti_init_options options = {.struct_size = sizeof options, .timeout_ms = 2000};
    tutti_group *world;

    check_status(tutti_init(&options, &world), TUTTI_ERR_TIMEOUT);
    rank_value("words", "%s", tutti_last_error());
}

/* ---- auto ------------------------------------------------------------------------------------ */

/* A world, and a group that is made from it, by which calls with tensors on the device go. */
static void expect_auto(int rank, int size, const char *backend, const char *served_by)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *group;

    setenv("TUTTI_BACKEND", "auto", 1);
    tutti_group *world = begin(rank, size, &stream, &options);
    check_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    make(&v, COUNT, rank);
    for (int i = 0; i < 2; i++) {
        tutti_group *one = i ? group : world;

        check_str_eq(tutti_group_backend(one), backend);
        fill(&v, rank);
        check_ok(tutti_all_reduce(one, &v.tensor, TUTTI_MAX, &options, NULL));
        check_str_eq(rank_served_by(one), served_by);
        check_eq(element(&v, stream, COUNT - 1), size - 1);
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(group));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(auto_takes_nccl_where_each_rank_names_its_gpu)
{
    setenv("TUTTI_DEVICE", "cuda", 1);
    expect_auto(rank, size, "shm+nccl", "nccl all_reduce_native");
}

RANK_CASE(auto_does_without_nccl_where_no_rank_names_a_gpu)
{
    unsetenv("TUTTI_DEVICE");
    expect_auto(rank, size, "shm", "shm all_reduce_inline");
}

RANK_CASE(auto_does_without_nccl_where_a_rank_names_no_gpu)
{
    if (rank != 2)
        setenv("TUTTI_DEVICE", "cuda", 1);
    expect_auto(rank, size, "shm", "shm all_reduce_inline");
}

RANK_CASE(auto_does_without_nccl_where_a_rank_lacks_it)
{
    setenv("TUTTI_DEVICE", "cuda", 1);
    if (rank == 1)
        setenv("TUTTI_NCCL", "/nowhere/libnccl.so.2", 1);
    expect_auto(rank, size, "shm", "shm all_reduce_inline");
}

RANK_CASE(auto_does_without_nccl_where_its_versions_differ)
{
    setenv("TUTTI_DEVICE", "cuda", 1);
    if (rank == 1)
        setenv("STANDIN_NCCL_VERSION", "22807", 1);
    expect_auto(rank, size, "shm", "shm all_reduce_inline");
}

RANK_CASE(auto_does_without_nccl_where_ranks_share_a_gpu)
{
    tutti_group *world;

    (void)rank;
    (void)size;
    setenv("TUTTI_BACKEND", "auto", 1);
    setenv("TUTTI_DEVICE", "cuda:0", 1);
    world = rank_init(NULL);
    check_str_eq(tutti_group_backend(world), "shm");
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_group_has_nccl_by_a_choice_of_its_own)
{
    tutti_group_options group_options = TUTTI_GROUP_OPTIONS_INIT;
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *group;

    setenv("TUTTI_BACKEND", "cuda:shm", 1);
    tutti_group *world = begin(rank, size, &stream, &options);
    group_options.backend = "cpu:auto,cuda:nccl";
    check_ok(tutti_group_new(world, NULL, 0, &group_options, &group));
    check_str_eq(tutti_group_backend(group), "shm+nccl");
    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(group, &v.tensor, TUTTI_MAX, &options, NULL));
    check_str_eq(rank_served_by(group), "nccl all_reduce_native");
    check_eq(element(&v, stream, COUNT - 1), size - 1);
    check_ok(tutti_group_destroy(group));
    check_ok(tutti_group_destroy(world));
}

/* Of a version that keeps what it knows of calls in progress for each thread: this thread makes first calls of several
 * groups, and a group more, before any is over. Ranks make them in different orders. */
RANK_CASE(calls_of_several_groups_may_be_in_progress)
{
    enum { GROUPS = 4, ROUNDS = 3 };
    static struct vector v[GROUPS];
    tutti_group *groups[GROUPS];
    tutti_work *works[GROUPS];
    tutti_options options[GROUPS];
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options[0]), *last = NULL;

    for (int g = 0; g < GROUPS; g++) {
        require_ok(tutti_group_new(world, NULL, 0, NULL, &groups[g]));
        options[g] = options[0];
        options[g].stream = gpu_stream();
        make(&v[g], COUNT, 1);
    }
    for (int round = 1, sum = size; round <= ROUNDS; round++, sum *= size) {
        for (int i = 0; i < GROUPS; i++) {
            const int g = rank % 2 ? GROUPS - 1 - i : i;

            require_ok(
                tutti_all_reduce(groups[g], &v[g].tensor, TUTTI_SUM, &options[g], &works[g]));
        }
        if (round == 1)
            require_ok(tutti_group_new(world, NULL, 0, NULL, &last));
        for (int g = 0; g < GROUPS; g++) {
            check_ok(tutti_work_wait(works[g], 0));
            tutti_work_free(works[g]);
            check_eq(element(&v[g], options[g].stream, COUNT - 1), sum);
        }
    }
    check_ok(tutti_all_reduce(last, &v[0].tensor, TUTTI_MAX, &options[0], NULL));
    for (int g = 0; g < GROUPS; g++)
        check_ok(tutti_group_destroy(groups[g]));
    check_ok(tutti_group_destroy(last));
    check_ok(tutti_group_destroy(world));
}

/* ---- failures -------------------------------------------------------------------------------- */

RANK_CASE(a_rank_that_is_killed_ends_an_issued_call)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    call_once(world, &v, rank, TUTTI_SUM, &options);
    outlive_rank_1(rank);
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_PEER_LOST, "rank 1");
}

/* NCCL has not come to the end of the abort, so the copy of the strided tensor stays until the group is destroyed. */
RANK_CASE(a_stream_may_be_destroyed_after_an_abort_that_goes_on)
{
    tutti_options options;
    static struct vector v;
    int64_t shape;
    void *stream;
    tutti_work *work;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    const tutti_tensor strided = every_second(&v, &shape);
    const tutti_status status = tutti_all_reduce(world, &strided, TUTTI_SUM, &options, &work);
    if (status) { /* another rank was faster */
        check_status(status, TUTTI_ERR_ABORTED);
    } else {
        check_ok(tutti_group_abort(world, "enough"));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        tutti_work_free(work);
    }
    gpu_stream_free(stream);
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

RANK_CASE(other_counts_over_nccl_are_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    v.shape = rank == 1 ? COUNT / 2 : COUNT;
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "150 x i32");
}

RANK_CASE(other_operations_over_nccl_are_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    if (rank == 1)
        (void)tutti_broadcast(world, &v.tensor, 0, &options, NULL);
    else
        (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "broadcast");
}

/* NCCL says so on rank 1, at its second operation. */
RANK_CASE(an_error_that_comes_late_is_told_to_all)
{
    tutti_options options;
    static struct vector v;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "rank 1");
    tutti_work_free(work);
    expect_end(world, stream, TUTTI_ERR_PLUGIN, "rank 1");
}
