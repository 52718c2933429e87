/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, staged in one phase: every member copies its vector to its staging and reduces all
 * members' in rank order, so that all compute the same bits.
 * Cost: one hand-over, n * bytes read; wins while a hand-over costs more than reducing everything.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, MAPPED_SLOT_BYTES);
    const uint32_t first = schedule_chunks(sched, chunks);
    const struct part whole = {0, req->bytes};

    for (uint32_t k = 0; k <= chunks; k++) {
        if (k < chunks) {
            const struct part piece = piece_of(whole, MAPPED_SLOT_BYTES, k);

            staging_give(sched, req->in, first + k, piece);
        }
        if (k == 0)
            schedule_meet_all(sched);
        if (k > 0) {
            const struct part piece = piece_of(whole, MAPPED_SLOT_BYTES, k - 1);
            const struct place to = place_after(req->out, piece.offset);

            staging_await_all(sched, WORD_IN_READY, first + k - 1);
            schedule_reduce_mates(sched, to, place_after(req->in, piece.offset), first + k - 1, 0,
                                  0, piece.bytes);
            if (req->finish)
                schedule_finish(sched, to, piece.bytes);
            if (k < chunks) /* the runner posts the last one */
                staging_post(sched, WORD_IN_USED, first + k - 1);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size;

    return (struct cost){.hand_overs = pieces_in(bytes, MAPPED_SLOT_BYTES),
                         .mapped_bytes = n * bytes,
                         .reduced_bytes = (n - 1) * bytes};
}

const struct algorithm all_reduce_staged_algorithm = {
    "all_reduce_staged", OPERATION_ALL_REDUCE, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
