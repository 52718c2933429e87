/* SPDX-License-Identifier: Apache-2.0 */
/* Batches over NCCL: one launch, its order, its failures. */
#include "nccl_counts.h"
#include "nccl_rank.h"

RANK_CASE(a_waiting_batch_returns_while_its_stream_is_held)
{
    tutti_options options;
    static struct vector a, b;
    struct gpu_hold *hold;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&a, COUNT, rank);
    make(&b, COUNT, 1);
    hold = gpu_hold(stream);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_all_reduce(world, &b.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check(!gpu_is_idle(stream));
    gpu_let_go(hold);
    check_eq(element(&a, stream, 0), size * (size - 1) / 2);
    check_eq(element(&b, stream, COUNT - 1), size);
    check_ok(tutti_group_destroy(world));
}

/* Two vectors of this rank that a batch sums up, on a stream each. */
static void sum_two(tutti_group *world, tutti_options *options, struct vector *a, void *other,
                    struct vector *b, tutti_work **work)
{
    void *stream = options->stream;

    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &a->tensor, TUTTI_SUM, options, NULL));
    options->stream = other;
    check_ok(tutti_all_reduce(world, &b->tensor, TUTTI_AVG, options, NULL));
    options->stream = stream;
    check_ok(tutti_batch_end(world, work));
}

RANK_CASE(a_batch_over_nccl_is_one_launch)
{
    enum { CALLS = 100 };
    static struct vector v[CALLS];
    tutti_options options;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int i = 0; i < CALLS; i++)
        make(&v[i], COUNT, rank + i);
    const int64_t alone_ns = rank_now_ns();
    for (int i = 0; i < CALLS; i++)
        check_ok(tutti_all_reduce(world, &v[i].tensor, TUTTI_MAX, &options, NULL));
    gpu_synchronize(stream);
    rank_value("alone_us", "%lld", (long long)(rank_now_ns() - alone_ns) / 1000);
    for (int i = 0; i < CALLS; i++)
        fill(&v[i], rank + i);
    const int before = nccl_launches();
    const int64_t began_ns = rank_now_ns();
    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < CALLS; i++)
        check_ok(
            tutti_all_reduce(world, &v[i].tensor, i % 2 ? TUTTI_MAX : TUTTI_AVG, &options, NULL));
    check_ok(tutti_batch_end(world, &work));
    rank_value("issued_us", "%lld", (long long)(rank_now_ns() - began_ns) / 1000);
    check_ok(tutti_work_wait(work, 0));
    rank_value("done_us", "%lld", (long long)(rank_now_ns() - began_ns) / 1000);
    tutti_work_free(work);
    check(before < 0 || nccl_launches() == before + 1);
    for (int i = 0; i < CALLS; i++)
        check_eq(element(&v[i], stream, COUNT - 1), i + (i % 2 ? size - 1 : (size - 1) / 2));
    check_str_eq(rank_served_by(world), "nccl all_reduce_native");
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_call_of_a_batch_over_nccl_may_need_the_result_of_another)
{
    static struct vector a, b, all;
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&a, COUNT, rank + 1);
    make(&b, COUNT, -1);
    make(&all, (int64_t)COUNT * size, -1);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce_into(world, &a.tensor, &b.tensor, TUTTI_MAX, &options, NULL));
    check_ok(tutti_all_gather(world, &a.tensor, &all.tensor, &options, NULL)); /* needs nothing */
    check_ok(tutti_all_reduce(world, &b.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_reduce(world, &b.tensor, TUTTI_SUM, 0, &options, NULL));
    check_ok(tutti_broadcast(world, &b.tensor, 0, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check_eq(element(&b, stream, 7), size * size * size);
    check_eq(element(&all, stream, (int64_t)COUNT * size - 1), size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_batch_over_nccl_has_calls_of_two_streams_and_of_strided_tensors)
{
    static struct vector a, b;
    int64_t shape[2] = {COUNT, 1}, strides[2] = {2, 1}; /* every second element */
    tutti_options options;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&a, (int64_t)COUNT * 2, rank);
    make(&b, COUNT, rank + 1);
    a.tensor.ndim = 2;
    a.tensor.shape = shape;
    a.tensor.strides = strides;
    sum_two(world, &options, &a, other, &b, &work);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_eq(element(&a, stream, COUNT * 2 - 2), size * (size - 1) / 2);
    check_eq(element(&a, stream, COUNT * 2 - 1), rank);
    check_eq(element(&b, other, COUNT - 1), (size + 1) / 2);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_stream_waits_for_a_batch_and_the_host_does_not)
{
    static struct vector a, b;
    tutti_options options;
    struct gpu_hold *hold;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_AVG, &options, NULL)); /* loads a kernel */
    gpu_synchronize(stream);
    fill(&a, rank);
    hold = gpu_hold(stream);
    sum_two(world, &options, &a, stream, &b, &work);
    check_ok(tutti_work_wait_stream(work, other));
    check(!gpu_is_idle(other));
    gpu_let_go(hold);
    check_eq(element(&a, other, 0), size * (size - 1) / 2);
    check_eq(element(&b, other, 0), (size - 1) / 2);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

/* Rank 1 makes the same calls, but one after the other. */
RANK_CASE(batches_over_nccl_that_differ_are_a_mismatch)
{
    static struct vector a, b;
    tutti_options options;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    if (rank == 1) {
        (void)tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, NULL);
        (void)tutti_all_reduce(world, &b.tensor, TUTTI_AVG, &options, NULL);
    } else {
        sum_two(world, &options, &a, stream, &b, &work);
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_MISMATCH);
        tutti_work_free(work);
    }
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "in one launch with the next call of its batch");
}

/* On rank 1, in the second call of a batch. */
RANK_CASE(an_error_inside_of_a_batch_is_told_to_all)
{
    static struct vector a, b;
    tutti_options options;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    sum_two(world, &options, &a, stream, &b, &work);
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "rank 1: nccl: the operations of a batch failed");
    tutti_work_free(work);
    expect_end(world, stream, TUTTI_ERR_PLUGIN, "rank 1");
}

RANK_CASE(a_rank_that_is_killed_ends_an_issued_batch)
{
    static struct vector a, b;
    tutti_options options;
    tutti_work *work = NULL;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, NULL));
    gpu_synchronize(stream);
    outlive_rank_1(rank);
    (void)tutti_batch_begin(world); /* its end may hear of the death, too */
    (void)tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, NULL);
    (void)tutti_all_reduce(world, &b.tensor, TUTTI_AVG, &options, NULL);
    if (!tutti_batch_end(world, &work))
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_PEER_LOST);
    tutti_work_free(work);
    expect_end(world, stream, TUTTI_ERR_PEER_LOST, "rank 1");
}
