/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, registered: each member copies its blocks out of the others' memory. Cost: two meetings, n
 * blocks copied.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int self = sched->self;

    for (int i = 0; i < sched->local_size; i++) {
        const int peer = (self + i) % sched->local_size;
        const uint64_t bytes = out_block_bytes(req, peer);

        schedule_copy(sched, local_block(req, req->out, peer),
                      i ? schedule_peer_in(sched, peer, 0, bytes) : local_block(req, req->in, self),
                      bytes);
    }
    registered_leave_together(sched);
}

COST(.hand_overs = 2, .mapped_bytes = n * bytes)
ALGORITHM(all_to_all_registered, ALL_TO_ALL, REGISTERED, .emit = emit, .cost = cost);
