/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, direct: everybody sends its block to everybody. Cost: alpha + (n-1) * bytes * beta in
 * one step, n-1 messages a member; wins for short blocks of few members, and for long ones of
 * 3 or 4 members that outnumber their CPUs.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const uint64_t own = out_block_bytes(req, sched->rank);

    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step);

        schedule_recv(sched, from, place_out_block(from, 0), out_block_bytes(req, from));
        schedule_send(sched, direct_to(sched, step), req->in, own);
    }
    schedule_copy(sched, place_out_block(sched->rank, 0), req->in, own);
    schedule_fence(sched);
}

COST(.messages = 1, .at_once = 2 * (n - 2), .message_bytes = (n - 1) * bytes)
ALGORITHM(all_gather_direct, ALL_GATHER, MESSAGES, .emit = emit, .cost = cost);
