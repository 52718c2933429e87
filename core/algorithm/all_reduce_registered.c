/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, registered: each member reduces its n-th of the vector from all inputs into its own output,
 * and copies it from there to the outputs of all others. A place of the vector is read and written by one
 * member alone, so inputs may be outputs. Cost: two meetings; (n-1)/n * bytes reduced, (n-1)/n copied.
 */
#include "algorithm/registered.h"

static void reduce_piece(struct schedule *sched, const struct request *req, struct part piece)
{
    const struct place own = place_after(req->out, piece.offset);

    schedule_reduce_peers(sched, own, piece.offset, piece.bytes);
    if (req->finish)
        schedule_finish(sched, own, piece.bytes);
    for (int i = 1; i < sched->local_size; i++) {
        const int peer = (sched->self + i) % sched->local_size;

        schedule_copy(sched, schedule_peer_out(sched, peer, piece.offset, piece.bytes), own,
                      piece.bytes);
    }
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct part mine = part_of(req->bytes, sched->local_size, sched->self);
    const uint64_t each = registered_piece_bytes(mine.bytes);

    for (uint64_t i = 0; i < pieces_in(mine.bytes, each); i++)
        reduce_piece(sched, req, piece_of(mine, each, i));
    registered_leave_together(sched);
}

COST(.hand_overs = 2, .mapped_bytes = bytes - bytes / n, .reduced_bytes = bytes - bytes / n)
ALGORITHM(all_reduce_registered, ALL_REDUCE, REGISTERED, .emit = emit, .cost = cost);
