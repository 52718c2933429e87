/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, direct: the root sends everybody its block. Cost: alpha + (n-1) * bytes * beta at the
 * root, which no tree can send less than, in n-1 messages.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    if (sched->rank != req->root) {
        schedule_recv(sched, req->root, req->out, req->bytes);
    } else {
        for (int step = 1; step < sched->size; step++) {
            const int to = direct_to(sched, step);

            schedule_send(sched, to, place_in_block(to, 0), in_block_bytes(req, to));
        }
        schedule_copy(sched, req->out, place_in_block(sched->rank, 0),
                      in_block_bytes(req, sched->rank));
    }
    schedule_fence(sched);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;

    return (struct cost){.messages = 1, .at_once = others - 1, .message_bytes = others * bytes};
}

const struct algorithm scatter_direct_algorithm = {
    "scatter_direct", OPERATION_SCATTER, ALGORITHM_MESSAGES, emit, cost, NULL, NULL};
