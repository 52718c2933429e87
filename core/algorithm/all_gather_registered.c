/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, registered: each member copies all blocks out of their owners' memory. Cost: two meetings,
 * n blocks copied.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    for (int i = 0; i < sched->local_size; i++) {
        const int peer = (sched->self + i) % sched->local_size;
        const uint64_t bytes = out_block_bytes(req, peer);

        schedule_copy(sched, local_block(req, req->out, peer),
                      i ? schedule_peer_in(sched, peer, 0, bytes) : req->in, bytes);
    }
    registered_leave_together(sched);
}

COST(.hand_overs = 2, .mapped_bytes = n * bytes)
ALGORITHM(all_gather_registered, ALL_GATHER, REGISTERED, .emit = emit, .cost = cost);
