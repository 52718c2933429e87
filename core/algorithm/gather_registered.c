/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, registered: each member copies its block to its place in the root's memory, all at once. The
 * root waits until all have; they wait for nobody but the root. Cost: two hand-overs, a block copied.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int self = sched->self;

    schedule_copy(sched,
                  self == req->root ? local_block(req, req->out, self)
                                    : schedule_peer_out(sched, req->root, 0, req->bytes),
                  req->in, req->bytes);
    registered_leave_root(sched, req->root);
}

COST(.hand_overs = 2, .mapped_bytes = bytes)
ALGORITHM(gather_registered, GATHER, REGISTERED, .emit = emit, .cost = cost);
