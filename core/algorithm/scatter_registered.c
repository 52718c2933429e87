/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, registered: each member copies its block out of the root's memory, all at once. The root waits
 * until all have; they wait for nobody but the root. Cost: two hand-overs, a block copied.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int self = sched->self;

    schedule_copy(sched, req->out,
                  self == req->root ? local_block(req, req->in, self)
                                    : schedule_peer_in(sched, req->root, 0, req->bytes),
                  req->bytes);
    registered_leave_root(sched, req->root);
}

COST(.hand_overs = 2, .mapped_bytes = bytes)
ALGORITHM(scatter_registered, SCATTER, REGISTERED, .emit = emit, .cost = cost);
