/* SPDX-License-Identifier: Apache-2.0 */
/*
 * barrier, composed: the first member of each host meets its local peers' announce lines, then the first
 * members go through the barrier of messages, then each lets its local peers go with a counter.
 * Cost: two hand-overs and log2(hosts) * alpha. It serves an all_reduce without elements as well.
 */
#include "algorithm/algorithm.h"
#include "algorithm/staging.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const bool shared = sched->local_size > 1;
    const struct chunk chunk = schedule_chunks(sched, shared ? 1 : 0, 0);

    if (layout->local != 0) {
        schedule_meet(sched, 0);
        staging_await(sched, 0, WORD_OUT_READY, chunk);
        return;
    }
    if (shared)
        schedule_meet_all(sched);
    schedule_view(sched, layout->host, layout->hosts, layout->peers);
    algorithm_emit(&barrier_dissemination_algorithm, sched, req);
    schedule_view(sched, layout->rank, layout->size, NULL);
    if (shared)
        staging_post(sched, WORD_OUT_READY, chunk);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    struct layout between = {.size = layout->hosts, .thresholds = layout->thresholds};
    struct cost c = barrier_dissemination_algorithm.cost(&between, bytes);

    c.hand_overs = 2;
    return c;
}

ALGORITHM(barrier_composed, BARRIER, COMPOSED, .emit = emit, .cost = cost);
