/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, direct: everybody sends its block to the root. Cost: alpha + (n-1) * bytes * beta at the
 * root, which no tree can receive less than, in n-1 messages.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static void emit(struct schedule *sched, const struct request *req)
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
}

COST(.messages = 1, .at_once = n - 2, .message_bytes = (n - 1) * bytes)
ALGORITHM(gather_direct, GATHER, MESSAGES, .emit = emit, .cost = cost);
