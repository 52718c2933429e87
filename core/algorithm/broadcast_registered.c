/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, registered: the others copy the root's vector out of its memory. The root waits until they
 * have; they wait for nobody but the root. Cost: two hand-overs, bytes copied once.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    if (sched->self != req->root)
        schedule_copy(sched, req->out, schedule_peer_out(sched, req->root, 0, req->bytes),
                      req->bytes);
    registered_leave_root(sched, req->root);
}

COST(.hand_overs = 2, .mapped_bytes = bytes)
ALGORITHM(broadcast_registered, BROADCAST, REGISTERED, .emit = emit, .cost = cost);
