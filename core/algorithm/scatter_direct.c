/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, direct: the root sends everybody its block, all at once or paced (direct.h). Cost: alpha + (n-1) * bytes
 * * beta at the root, which no tree can send less than, in n-1 messages.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static void emit(struct schedule *sched, const struct request *req)
{
    if (sched->rank != req->root) {
        schedule_recv(sched, req->root, req->out, req->bytes);
    } else {
        struct direct_pace pace = direct_pace(sched, longest_in_block(req, sched->size));

        for (int step = 1; step < sched->size; step++) {
            const int to = direct_to(sched, step);

            direct_started(
                sched, &pace,
                schedule_send(sched, to, place_in_block(to, 0), in_block_bytes(req, to)));
        }
        schedule_copy(sched, req->out, place_in_block(sched->rank, 0),
                      in_block_bytes(req, sched->rank));
    }
    schedule_fence(sched);
}

COST(.messages = 1, .at_once = n - 2, .message_bytes = (n - 1) * bytes)
ALGORITHM(scatter_direct, SCATTER, MESSAGES, .emit = emit, .cost = cost);
