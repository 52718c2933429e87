/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, direct: everybody sends its block to the root. Cost: alpha + (n-1) * bytes * beta at the
 * root, which no tree can receive less than, in n-1 messages.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    if (sched->rank != req->root) {
        schedule_send(sched, req->root, req->in, req->bytes);
    } else {
        for (int step = 1; step < sched->size; step++) {
            const int from = direct_from(sched, step);

            schedule_recv(sched, from, place_out_block(from, 0), out_block_bytes(req, from));
        }
        schedule_copy(sched, place_out_block(sched->rank, 0), req->in,
                      out_block_bytes(req, sched->rank));
    }
    schedule_fence(sched);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;

    return (struct cost){.messages = 1, .at_once = others - 1, .message_bytes = others * bytes};
}

const struct algorithm gather_direct_algorithm = {
    "gather_direct", OPERATION_GATHER, ALGORITHM_MESSAGES, emit, cost, NULL, NULL};
