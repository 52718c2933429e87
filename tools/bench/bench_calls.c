/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations, each as one call, blocking or by works. Bandwidths are those of nccl-tests: the bytes of
 * the longer side divided by the time, and times what the slowest link carries of them at least.
 */
#include "bench/bench.h"

enum { BURST = 64 }; /* messages under way at once, as in the OSU benchmarks */

static tutti_tensor tensor_of(const struct bench_call *call, void *data, int64_t *shape,
                              uint64_t blocks)
{
    return tutti_tensor_1d(data, call->plan->dtype, shape, (int64_t)(call->count * blocks));
}

static tutti_status finish(tutti_status status, tutti_work *work)
{
    if (status || !work)
        return status;
    status = tutti_work_wait(work, 0);
    tutti_work_free(work);
    return status;
}

/*
 * Defines run_NAME, whose `in` and `out` are tensors of that many blocks. The status is known before
 * `started` is looked at: arguments of one call have no order.
 */
#define RUN(name, in_blocks, out_blocks, ...)                                                      \
    static tutti_status run_##name(struct bench_rank *rank, const struct bench_call *call)         \
    {                                                                                              \
        const uint64_t n = (uint64_t)rank->size;                                                   \
        int64_t shapes[2];                                                                         \
        tutti_work *started = NULL, **work = call->plan->async ? &started : NULL;                  \
        tutti_tensor in = tensor_of(call, call->in, &shapes[0], in_blocks);                        \
        tutti_tensor out = tensor_of(call, call->out, &shapes[1], out_blocks);                     \
                                                                                                   \
        (void)n;                                                                                   \
        (void)in;                                                                                  \
        (void)out;                                                                                 \
        const tutti_status status = __VA_ARGS__;                                                   \
        return finish(status, started);                                                            \
    }

RUN(all_reduce, 1, 1, tutti_all_reduce(rank->world, &in, call->plan->op, NULL, work))
RUN(broadcast, 1, 1, tutti_broadcast(rank->world, &in, 0, NULL, work))
RUN(reduce, 1, 1,
    tutti_reduce_into(rank->world, &in, rank->rank ? NULL : &out, call->plan->op, 0, NULL, work))
RUN(all_gather, 1, n, tutti_all_gather(rank->world, &in, &out, NULL, work))
RUN(gather, 1, n, tutti_gather(rank->world, &in, rank->rank ? NULL : &out, 0, NULL, work))
RUN(scatter, n, 1, tutti_scatter(rank->world, rank->rank ? NULL : &in, &out, 0, NULL, work))
RUN(reduce_scatter, n, 1, tutti_reduce_scatter(rank->world, &in, &out, call->plan->op, NULL, work))
RUN(all_to_all, n, n, tutti_all_to_all(rank->world, &in, &out, NULL, work))
RUN(barrier, 1, 1, tutti_barrier(rank->world, NULL, work))

/* ---- messages, between ranks 0 and 1 ----------------------------------------------------------- */

static tutti_status send(struct bench_rank *rank, const struct bench_call *call, void *data)
{
    int64_t shape;
    const tutti_tensor tensor = tensor_of(call, data, &shape, 1);
    tutti_work *work = NULL;

    if (!call->plan->async)
        return tutti_send(rank->world, &tensor, !rank->rank, 0, NULL);
    const tutti_status status = tutti_isend(rank->world, &tensor, !rank->rank, 0, NULL, &work);
    return finish(status, work);
}

static tutti_status receive(struct bench_rank *rank, const struct bench_call *call, void *data)
{
    int64_t shape;
    const tutti_tensor tensor = tensor_of(call, data, &shape, 1);
    tutti_work *work = NULL;

    if (!call->plan->async)
        return tutti_recv(rank->world, &tensor, !rank->rank, 0, NULL, NULL);
    const tutti_status status = tutti_irecv(rank->world, &tensor, !rank->rank, 0, NULL, &work);
    return finish(status, work);
}

static tutti_status run_ping_pong(struct bench_rank *rank, const struct bench_call *call)
{
    if (rank->rank > 1)
        return TUTTI_OK;
    const tutti_status status =
        rank->rank == 0 ? send(rank, call, call->in) : receive(rank, call, call->out);
    if (status)
        return status;
    return rank->rank == 0 ? receive(rank, call, call->out) : send(rank, call, call->in);
}

static tutti_status run_both_ways(struct bench_rank *rank, const struct bench_call *call)
{
    int64_t shapes[2];
    const tutti_tensor in = tensor_of(call, call->in, &shapes[0], 1);
    const tutti_tensor out = tensor_of(call, call->out, &shapes[1], 1);

    if (rank->rank > 1)
        return TUTTI_OK;
    return tutti_sendrecv(rank->world, &in, !rank->rank, 0, &out, !rank->rank, 0, NULL, NULL);
}

/* Many messages to rank 1, of which all are started before one is waited for, and one answer. */
static tutti_status run_burst(struct bench_rank *rank, const struct bench_call *call)
{
    tutti_work *works[BURST];
    int64_t shape;
    const tutti_tensor tensor = tensor_of(call, rank->rank ? call->out : call->in, &shape, 1);
    tutti_status status = TUTTI_OK;
    int begun = 0;

    if (rank->rank > 1)
        return TUTTI_OK;
    for (; begun < BURST && !status; begun += !status)
        status = rank->rank == 0 ? tutti_isend(rank->world, &tensor, 1, 0, NULL, &works[begun])
                                 : tutti_irecv(rank->world, &tensor, 0, 0, NULL, &works[begun]);
    for (int i = 0; i < begun; i++)
        status = finish(status, works[i]);
    if (status)
        return status;
    return rank->rank == 0 ? receive(rank, call, call->out) : send(rank, call, call->in);
}

/* ---- the table --------------------------------------------------------------------------------- */

static double moves_nothing(double bytes, int ranks)
{
    (void)bytes;
    (void)ranks;
    return 0;
}

static double moves_vector(double bytes, int ranks)
{
    (void)ranks;
    return bytes;
}

static double moves_blocks(double bytes, int ranks)
{
    return bytes * ranks;
}

static double moves_two(double bytes, int ranks)
{
    (void)ranks;
    return 2 * bytes;
}

static double moves_burst(double bytes, int ranks)
{
    (void)ranks;
    return BURST * bytes;
}

static double factor_one(int ranks)
{
    (void)ranks;
    return 1;
}

static double factor_others(int ranks)
{
    return (double)(ranks - 1) / ranks;
}

static double factor_twice(int ranks)
{
    return 2 * factor_others(ranks);
}

const struct bench_operation bench_operations[] = {
    {.name = "all_reduce",
     .in_place = true,
     .reduces = true,
     .what = "in place",
     .run = run_all_reduce,
     .moved = moves_vector,
     .factor = factor_twice},
    {.name = "broadcast",
     .in_place = true,
     .rooted = true,
     .what = "from rank 0",
     .run = run_broadcast,
     .moved = moves_vector,
     .factor = factor_one},
    {.name = "reduce",
     .rooted = true,
     .reduces = true,
     .what = "to rank 0",
     .run = run_reduce,
     .moved = moves_vector,
     .factor = factor_one},
    {.name = "all_gather",
     .gives_blocks = true,
     .what = "SIZE is of each block",
     .run = run_all_gather,
     .moved = moves_blocks,
     .factor = factor_others},
    {.name = "gather",
     .rooted = true,
     .gives_blocks = true,
     .what = "to rank 0; SIZE is of each block",
     .run = run_gather,
     .moved = moves_blocks,
     .factor = factor_others},
    {.name = "scatter",
     .rooted = true,
     .takes_blocks = true,
     .what = "from rank 0; SIZE is of each block",
     .run = run_scatter,
     .moved = moves_blocks,
     .factor = factor_others},
    {.name = "reduce_scatter",
     .takes_blocks = true,
     .reduces = true,
     .what = "SIZE is of each block",
     .run = run_reduce_scatter,
     .moved = moves_blocks,
     .factor = factor_others},
    {.name = "all_to_all",
     .takes_blocks = true,
     .gives_blocks = true,
     .what = "SIZE is of each block",
     .run = run_all_to_all,
     .moved = moves_blocks,
     .factor = factor_others},
    {.name = "barrier",
     .what = "without SIZE",
     .run = run_barrier,
     .moved = moves_nothing,
     .factor = factor_one},
    {.name = "ping_pong",
     .is_message = true,
     .halves = true,
     .what = "rank 0 to 1 and back; the time is half of that",
     .run = run_ping_pong,
     .moved = moves_vector,
     .factor = factor_one},
    {.name = "both_ways",
     .is_message = true,
     .what = "ranks 0 and 1 send to each other at once",
     .run = run_both_ways,
     .moved = moves_two,
     .factor = factor_one},
    {.name = "burst",
     .is_message = true,
     .what = "64 messages from rank 0 to 1 at once, and an answer; the time is of all",
     .run = run_burst,
     .moved = moves_burst,
     .factor = factor_one},
    {.name = NULL},
};
