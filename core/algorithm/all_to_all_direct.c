/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, direct: everybody exchanges a block with everybody, all at once or paced (direct.h). Cost: alpha + (n-1) *
 * bytes * beta. Blocks of no bytes are sent too: only the receiver knows what it expects.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int r = sched->rank;
    struct direct_pace pace = direct_pace(sched, longest_in_block(req, sched->size));

    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step), to = direct_to(sched, step);

        direct_started(
            sched, &pace,
            schedule_recv(sched, from, place_out_block(from, 0), out_block_bytes(req, from)));
        direct_started(sched, &pace,
                       schedule_send(sched, to, place_in_block(to, 0), in_block_bytes(req, to)));
    }
    schedule_copy(sched, place_out_block(r, 0), place_in_block(r, 0), in_block_bytes(req, r));
    schedule_fence(sched);
}

COST(.messages = 1, .at_once = 2 * (n - 2), .message_bytes = (n - 1) * bytes)
ALGORITHM(all_to_all_direct, ALL_TO_ALL, MESSAGES, .emit = emit, .cost = cost);
