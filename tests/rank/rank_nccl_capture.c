/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over NCCL on streams that are captured into graphs: replays, what is refused, failures. */
#include <string.h>

#include "nccl_rank.h"

/* The sum of `first` + rank over all ranks. */
static int32_t sum_from(int32_t first, int size)
{
    return size * first + size * (size - 1) / 2;
}

/* Checks a graph that sums up `v`. */
static void check_replays(void *graph, struct vector *v, void *stream, int rank, int size)
{
    for (int32_t first = 1; first <= 3; first++) {
        fill(v, first + rank);
        gpu_replay(graph, stream);
        check_eq(element(v, stream, 0), sum_from(first, size));
        check_eq(element(v, stream, COUNT - 1), sum_from(first, size));
    }
}

static void *sum_graph(tutti_group *world, const struct vector *v, const tutti_options *options)
{
    gpu_capture(options->stream);
    check_ok(tutti_all_reduce(world, &v->tensor, TUTTI_SUM, options, NULL));
    return gpu_graph(options->stream);
}

RANK_CASE(a_captured_all_reduce_runs_with_its_graph)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    void *graph = sum_graph(world, &v, &options);
    check_str_eq(rank_served_by(world), "nccl all_reduce_native");
    check_eq(element(&v, stream, 0), rank); /* it has not run yet */
    check_replays(graph, &v, stream, rank, size);
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_graph_has_several_calls_and_a_batch)
{
    tutti_options options;
    static struct vector one, all, sum, mean;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&one, COUNT, rank);
    make(&sum, COUNT, -1);
    make(&mean, COUNT, -1);
    make(&all, (int64_t)COUNT * size, -1);
    gpu_capture(stream);
    check_ok(tutti_all_reduce_into(world, &one.tensor, &sum.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_all_gather(world, &sum.tensor, &all.tensor, &options, NULL));
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce_into(world, &one.tensor, &mean.tensor, TUTTI_AVG, &options, NULL));
    check_ok(tutti_all_reduce(world, &sum.tensor, TUTTI_MAX, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    void *graph = gpu_graph(stream);
    for (int32_t first = 1; first <= 3; first++) {
        fill(&one, first + rank);
        gpu_replay(graph, stream);
        check_eq(element(&sum, stream, 0), sum_from(first, size));
        check_eq(element(&all, stream, (int64_t)COUNT * size - 1), sum_from(first, size));
        check_eq(element(&mean, stream, COUNT - 1), sum_from(first, size) / size);
    }
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(graphs_and_other_calls_take_turns)
{
    tutti_options options;
    static struct vector a, b;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&a, COUNT, 1);
    make(&b, COUNT, rank);
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_MAX, &options, NULL));
    if (rank == 1)
        rank_sleep_ms(300); /* nobody waits so long for an answer */
    void *sums = sum_graph(world, &a, &options);
    options.stream = other;
    void *others = sum_graph(world, &b, &options);
    options.stream = stream;
    for (int i = 0; i < 5; i++) {
        gpu_replay(sums, stream); /* times size */
        gpu_replay(others, other);
        check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_MAX, &options, NULL));
    }
    int32_t power = 1;
    for (int i = 0; i < 5; i++)
        power *= size;
    check_eq(element(&a, stream, COUNT - 1), power);
    check_eq(element(&b, other, 0), sum_from(0, size) * power / size);
    gpu_graph_free(sums);
    gpu_graph_free(others);
    check_ok(tutti_group_destroy(world));
}

static void check_captured(tutti_work *work)
{
    tutti_work_info info = {.struct_size = sizeof info};
    int32_t done = 0;

    check_status(tutti_work_test(work, &done), TUTTI_ERR_CAPTURED);
    check_eq(done, 1);
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_CAPTURED);
    check_contains(tutti_last_error(), "was captured into a graph");
    check_status(tutti_work_result(work, &info), TUTTI_ERR_CAPTURED);
}

/* Another stream waits for a call, does one, and is waited for: both are in the graph, in this order. */
RANK_CASE(a_captured_work_says_so_and_orders_streams_of_its_graph)
{
    tutti_options options;
    static struct vector a, b;
    tutti_work *first, *second, *batch;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    gpu_capture(stream);
    require_ok(tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, &first));
    check_captured(first);
    check_ok(tutti_work_wait_stream(first, stream));
    check_ok(tutti_work_wait_stream(first, other));
    options.stream = other;
    options.flags = TUTTI_WAITS_NEXT;
    require_ok(tutti_all_reduce_into(world, &a.tensor, &b.tensor, TUTTI_MAX, &options, &second));
    check_ok(tutti_work_wait(second, 0)); /* as a blocking call */
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &b.tensor, TUTTI_MAX, &options, NULL));
    check_ok(tutti_batch_end(world, &batch));
    check_captured(batch);
    check_ok(tutti_work_wait_stream(second, stream));
    check_ok(tutti_work_wait_stream(batch, stream));
    void *graph = gpu_graph(stream);
    check_status(tutti_work_wait_stream(first, other), TUTTI_ERR_CAPTURED);
    check_contains(tutti_last_error(), "which is complete");
    tutti_work_free(first);
    tutti_work_free(second);
    tutti_work_free(batch);
    check_replays(graph, &a, stream, rank, size);
    check_eq(element(&b, stream, COUNT - 1), sum_from(3, size));
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_captured_batch_has_calls_of_two_streams)
{
    tutti_options options;
    static struct vector a, b;
    tutti_work *first, *batch, *last;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&a, COUNT, rank);
    make(&b, COUNT, rank);
    gpu_capture(stream);
    options.flags = TUTTI_WAITS_NEXT;
    require_ok(tutti_all_reduce(world, &a.tensor, TUTTI_SUM, &options, &first));
    check_ok(tutti_work_wait_stream(first, other));
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_MAX, &options, NULL));
    options.stream = other;
    check_ok(tutti_all_reduce(world, &b.tensor, TUTTI_AVG, &options, NULL));
    check_ok(tutti_batch_end(world, &batch));
    check_captured(batch);
    check_status(tutti_work_wait_stream(batch, stream), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "on several streams");
    require_ok(tutti_all_reduce(world, &b.tensor, TUTTI_SUM, &options, &last));
    check_ok(tutti_work_wait_stream(last, stream));
    void *graph = gpu_graph(stream);
    tutti_work_free(first);
    tutti_work_free(batch);
    tutti_work_free(last);
    check_replays(graph, &a, stream, rank, size);
    fill(&b, rank);
    gpu_replay(graph, stream);
    check_eq(element(&b, stream, 0), (size - 1) / 2 * size);
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(tutti_status status, const char *words)
{
    check_status(status, TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), words);
}

static void refuse_batches(tutti_group *world, const struct vector *v, tutti_options *options)
{
    int32_t host = 1;
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(&host, TUTTI_I32, &shape, 1);
    tutti_work *work;

    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &v->tensor, TUTTI_SUM, options, NULL));
    check_ok(tutti_all_reduce(world, &on_host, TUTTI_SUM, NULL, NULL));
    refused(tutti_batch_end(world, NULL), "call 2, tutti_all_reduce, is on a stream that is not");
    require_ok(tutti_batch_begin(world));
    refused(tutti_all_reduce(world, &v->tensor, TUTTI_BOR, options, NULL), "captured");
    refused(tutti_batch_end(world, &work), "captured");
}

RANK_CASE(what_cannot_be_captured_is_refused_and_the_capture_goes_on)
{
    tutti_options options;
    static struct vector v, w;
    int64_t shape;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const int next = (rank + 1) % size;

    make(&v, COUNT, rank);
    make(&w, (int64_t)COUNT * size, rank);
    const tutti_tensor strided = every_second(&v, &shape);
    gpu_capture(stream);
    refused(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL), "nccl");
    refused(tutti_isend(world, &v.tensor, next, 0, &options, &work), "captured");
    refused(tutti_irecv(world, &v.tensor, next, 0, &options, &work), "captured");
    refused(tutti_all_reduce(world, &strided, TUTTI_SUM, &options, NULL), "a tensor with strides");
    refused(tutti_all_to_all(world, &w.tensor, &w.tensor, &options, NULL), "in place");
    options.flags = TUTTI_FIXED_ORDER;
    refused(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL), "captured");
    options.flags = 0;
    refuse_batches(world, &v, &options);
    check_ok(tutti_barrier(world, NULL, NULL)); /* of the host: it is no part of the graph */
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    void *graph = gpu_graph(stream);
    check_replays(graph, &v, stream, rank, size);
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_plan_runs_in_a_capture_and_outside)
{
    tutti_options options;
    static struct vector v;
    tutti_plan *plan;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    require_ok(tutti_plan_create(world, &plan));
    check_ok(tutti_plan_run(plan, NULL));
    check_eq(element(&v, stream, 0), sum_from(0, size));
    gpu_capture(stream);
    check_ok(tutti_plan_run(plan, &work));
    check_captured(work);
    void *graph = gpu_graph(stream);
    check_replays(graph, &v, stream, rank, size);
    fill(&v, rank);
    check_ok(tutti_plan_run(plan, NULL));
    check_eq(element(&v, stream, 0), sum_from(0, size));
    tutti_work_free(work);
    tutti_plan_free(plan);
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_capture_in_a_group_of_one_is_refused)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    gpu_capture(stream);
    refused(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL), "captured");
    gpu_capture_end(stream);
    check_ok(tutti_group_destroy(world));
}

/* ---- ends and failures ----------------------------------------------------------------------- */

RANK_CASE(a_group_may_end_before_its_graph)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    void *graph = sum_graph(world, &v, &options);
    check_replays(graph, &v, stream, rank, size);
    check_ok(tutti_group_destroy(world));
    gpu_graph_free(graph);
}

RANK_CASE(a_process_may_end_with_a_graph)
{
    static void *volatile graph; /* never freed */
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    graph = sum_graph(world, &v, &options);
    check_replays(graph, &v, stream, rank, size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(an_abort_ends_a_replay_that_waits)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    void *graph = sum_graph(world, &v, &options);
    if (rank == 1) {
        rank_sleep_ms(50);
        check_ok(tutti_group_abort(world, "enough"));
    } else {
        gpu_replay(graph, stream);
    }
    gpu_synchronize(stream);
    gpu_graph_free(graph);
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

RANK_CASE(members_that_capture_other_calls_are_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    v.shape = rank == 1 ? COUNT / 2 : COUNT;
    gpu_capture(stream);
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL), TUTTI_ERR_MISMATCH);
    gpu_capture_end(stream);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "150 x i32");
}

RANK_CASE(a_member_that_does_not_capture_is_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    if (rank != 1)
        gpu_capture(stream);
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    if (rank != 1)
        gpu_capture_end(stream);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "captured into a graph");
}

RANK_CASE(a_rank_that_is_killed_ends_a_replay)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    void *graph = sum_graph(world, &v, &options);
    check_replays(graph, &v, stream, rank, size);
    outlive_rank_1(rank);
    gpu_replay(graph, stream);
    gpu_synchronize(stream); /* nothing is called meanwhile */
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL),
                 TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), "rank 1");
    gpu_replay(graph, stream);
    gpu_graph_free(graph);
    expect_end(world, stream, TUTTI_ERR_PEER_LOST, "rank 1");
}

/* NCCL says so on rank 1, at the second replay. */
RANK_CASE(an_error_in_a_replay_is_told_to_all)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    void *graph = sum_graph(world, &v, &options);
    for (int i = 0; i < 3; i++)
        gpu_replay(graph, stream);
    gpu_synchronize(stream);
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL), TUTTI_ERR_PLUGIN);
    gpu_graph_free(graph);
    expect_end(world, stream, TUTTI_ERR_PLUGIN, "rank 1");
}
