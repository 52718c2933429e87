/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, recursive doubling: every member exchanges its whole partial result with a partner at
 * distance 1, 2, 4, … Cost: log2(n) * (alpha + bytes * (beta + gamma)); wins where latency does: up
 * to 16 KiB, measured on two cores that share a cache, and to 32 KiB where members outnumber their CPUs.
 * Invariant: before the step at distance d, a member holds the reduction over the d members of
 * its aligned block. The lower block is always the first operand, so all compute the same bits.
 */
#include "algorithm/fold.h"
#include "algorithm/parts.h"

static void emit(struct schedule *sched, const struct request *req)
{
    struct fold fold = fold_in(sched, req);
    const struct place theirs = schedule_scratch(sched, req->bytes);

    for (int distance = 1; fold.index >= 0 && distance < fold.core; distance *= 2) {
        const int partner = fold.index ^ distance, peer = fold_rank(&fold, partner);

        schedule_recv(sched, peer, theirs, req->bytes);
        schedule_send(sched, peer, fold.mine, req->bytes);
        schedule_fence(sched);
        if (partner < fold.index)
            schedule_reduce(sched, req->out, theirs, fold.mine, req->bytes);
        else
            schedule_reduce(sched, req->out, fold.mine, theirs, req->bytes);
        fold.mine = req->out;
    }
    if (req->finish && fold.index >= 0)
        schedule_finish(sched, req->out, req->bytes);
    fold_out(sched, req, &fold);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const int core = fold_core(layout->size);
    const uint64_t folds = core < layout->size, steps = log2_ceil(core);

    return (struct cost){.messages = steps + 2 * folds,
                         .message_bytes = (steps + 2 * folds) * bytes,
                         .reduced_bytes = (steps + folds) * bytes};
}

ALGORITHM(all_reduce_recursive_doubling, ALL_REDUCE, MESSAGES, .flags = ALGORITHM_ROUNDS_ON_THE_WAY,
          .most = THRESHOLD_RECURSIVE_DOUBLING_MAX, .emit = emit, .cost = cost);
