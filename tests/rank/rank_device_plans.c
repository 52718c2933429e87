/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with tensors on GPUs: each run takes what they hold then, beside members that make the calls one by one. */
#include "rank/twins.h"

enum { LONG = 1300001, SHORT = 1000, ROUNDS = 4 };

/* Runs the plan, by a work in every other round, and waits until the results are in the tensors of the stream. */
static void run(tutti_plan *plan, int round, void *stream)
{
    tutti_work *work = NULL;

    require_ok(tutti_plan_run(plan, round % 2 ? &work : NULL));
    if (work) {
        check_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
    }
    gpu_synchronize(stream);
}

/* Rank 1 has its tensor in host memory, and no plan. */
static void reduce_again(tutti_group *world, int rank, int64_t count, void *stream)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_plan *plan = NULL;
    struct twins t;

    options.stream = stream;
    twins_make(&t, count, -1);
    if (rank != 1) {
        require_ok(tutti_batch_begin(world));
        require_ok(tutti_all_reduce(world, &t.device, TUTTI_SUM, &options, NULL));
        require_ok(tutti_plan_create(world, &plan));
        gpu_synchronize(stream); /* the call has put a copy of the tensor there */
    }
    for (int round = 0; round < ROUNDS; round++) {
        twins_fill(&t, 10 * round + rank);
        if (plan)
            run(plan, round, stream);
        else
            require_ok(tutti_all_reduce(world, &t.host, TUTTI_SUM, NULL, NULL));
        if (rank != 1) { /* the same again, on hosts */
            require_ok(tutti_all_reduce(world, &t.host, TUTTI_SUM, NULL, NULL));
            twins_check(&t, "all_reduce");
        } else {
            twins_fill(&t, 10 * round + rank);
            require_ok(tutti_all_reduce(world, &t.host, TUTTI_SUM, NULL, NULL));
        }
    }
    tutti_plan_free(plan);
    twins_free(&t);
}

RANK_CASE(a_plan_runs_again_with_what_its_gpu_tensors_hold)
{
    tutti_group *world = twins_begin(rank);

    reduce_again(world, rank, SHORT, NULL);
    reduce_again(world, rank, LONG, gpu_stream());
    check_ok(tutti_group_destroy(world));
}

/* A matrix by its transpose, blocks, and long messages around a ring. */
RANK_CASE(a_plan_of_several_calls_with_gpu_tensors_runs_again)
{
    static const int64_t extents[2] = {100, 30}, strides[2] = {1, 100};
    tutti_group *world = twins_begin(rank);
    const int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    struct twins matrix, block, blocks, out, in;
    tutti_plan *plan;

    twins_make(&matrix, 3000, 0);
    twins_make(&block, SHORT, 0);
    twins_make(&blocks, (int64_t)SHORT * size, 0);
    twins_make(&out, LONG, 0);
    twins_make(&in, LONG, 0);
    tutti_tensor turned = matrix.device;
    turned.ndim = 2;
    turned.shape = extents;
    turned.strides = strides;
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_isend(world, &out.device, next, 1, NULL, NULL));
    require_ok(tutti_all_reduce(world, &turned, TUTTI_MAX, NULL, NULL));
    require_ok(tutti_all_gather(world, &block.device, &blocks.device, NULL, NULL));
    require_ok(tutti_irecv(world, &in.device, before, 1, NULL, NULL));
    require_ok(tutti_plan_create(world, &plan));
    for (int round = 0; round < ROUNDS; round++) {
        twins_fill(&matrix, 100 * round + rank);
        twins_fill(&block, 100 * round + rank);
        twins_fill(&out, 100 * round + rank);
        run(plan, round, NULL);
        require_ok(tutti_all_reduce(world, &matrix.host, TUTTI_MAX, NULL, NULL));
        twins_check(&matrix, "all_reduce");
        require_ok(tutti_all_gather(world, &block.host, &blocks.host, NULL, NULL));
        twins_check(&blocks, "all_gather");
        require_ok(tutti_sendrecv(world, &out.host, next, 2, &in.host, before, 2, NULL, NULL));
        twins_check(&in, "received");
    }
    tutti_plan_free(plan);
    twins_free(&matrix);
    twins_free(&block);
    twins_free(&blocks);
    twins_free(&out);
    twins_free(&in);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_plan_that_runs_still_is_busy_and_may_be_freed)
{
    tutti_group *world = twins_begin(rank);
    tutti_options options = TUTTI_OPTIONS_INIT;
    struct twins t;
    tutti_plan *plan;
    tutti_work *work;

    twins_make(&t, SHORT, rank);
    options.stream = gpu_stream();
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_all_reduce(world, &t.device, TUTTI_MIN, &options, NULL));
    require_ok(tutti_plan_create(world, &plan));
    run(plan, 0, options.stream);
    struct gpu_hold *hold = gpu_hold(options.stream);
    require_ok(tutti_plan_run(plan, &work));
    check_status(tutti_plan_run(plan, NULL), TUTTI_ERR_BUSY);
    check_contains(tutti_last_error(), "the last run of this plan is not over");
    gpu_let_go(hold);
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    hold = gpu_hold(options.stream);
    require_ok(tutti_plan_run(plan, &work));
    tutti_plan_free(plan);
    gpu_let_go(hold);
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    require_ok(tutti_all_reduce(world, &t.host, TUTTI_MIN, NULL, NULL));
    twins_check(&t, "all_reduce");
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}
