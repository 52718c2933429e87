/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, registered: each member reduces its own block from all inputs, where they lie, into its
 * output. Others read no more than their own blocks, so the output may be the own block of the input.
 * Cost: two meetings, n-1 blocks reduced.
 */
#include "algorithm/registered.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct part whole = {0, in_block_bytes(req, sched->self)};
    const uint64_t each = registered_piece_bytes(whole.bytes);

    for (uint64_t i = 0; i < pieces_in(whole.bytes, each); i++) {
        const struct part piece = piece_of(whole, each, i);
        const struct place to = place_after(req->out, piece.offset);

        schedule_reduce_peers(sched, to, piece.offset, piece.bytes);
        if (req->finish)
            schedule_finish(sched, to, piece.bytes);
    }
    registered_leave_together(sched);
}

COST(.hand_overs = 2, .reduced_bytes = (n - 1) * bytes)
ALGORITHM(reduce_scatter_registered, REDUCE_SCATTER, REGISTERED, .emit = emit, .cost = cost);
