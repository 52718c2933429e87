/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, registered: each member reduces its n-th of the vector from all inputs into the root's output.
 * A place of the vector is read and written by one member alone, so the root's input may be its output.
 * Cost: two meetings, (n-1)/n * bytes reduced.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct part mine = part_of(req->bytes, sched->local_size, sched->self);
    const uint64_t each = registered_piece_bytes(mine.bytes);

    for (uint64_t i = 0; i < pieces_in(mine.bytes, each); i++) {
        const struct part piece = piece_of(mine, each, i);
        const struct place to = schedule_peer_out(sched, req->root, piece.offset, piece.bytes);

        schedule_reduce_peers(sched, to, piece.offset, piece.bytes);
        if (req->finish)
            schedule_finish(sched, to, piece.bytes);
    }
    registered_leave_together(sched);
}

COST(.hand_overs = 2, .reduced_bytes = bytes - bytes / n)
ALGORITHM(reduce_registered, REDUCE, REGISTERED, .emit = emit, .cost = cost);
