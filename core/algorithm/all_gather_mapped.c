/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, mapped: every member copies its block into its in-slots, chunk by chunk, and copies
 * the others' out one chunk behind. Cost: a pipeline of hand-overs, (n+1) * bytes copied.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static void copy_out(struct schedule *sched, uint32_t chunk, struct part piece)
{
    for (int i = 1; i < sched->mates; i++) {
        const int mate = (sched->self + i) % sched->mates;
        struct place to = place_out_block(mate, piece.offset);

        staging_await(sched, mate, WORD_IN_READY, chunk);
        schedule_copy(sched, to, place_staged_in(mate, chunk, 0), piece.bytes);
    }
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_chunk_bytes(req->bytes);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const struct part whole = {0, req->bytes};

    for (uint32_t k = 0; k <= chunks; k++) {
        if (k < chunks) {
            const struct part piece = piece_of(whole, each, k);

            staging_give(sched, req->in, first + k, piece);
        }
        if (k == 0) {
            schedule_copy(sched, place_out_block(sched->self, 0), req->in, req->bytes);
            schedule_meet_all(sched);
        }
        if (k > 0) {
            copy_out(sched, first + k - 1, piece_of(whole, each, k - 1));
            if (k < chunks) /* the runner posts the last one */
                staging_post(sched, WORD_IN_USED, first + k - 1);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size;

    return (struct cost){.hand_overs = pieces_in(bytes, staging_chunk_bytes(bytes)),
                         .mapped_bytes = (n + 1) * bytes};
}

const struct algorithm all_gather_mapped_algorithm = {
    "all_gather_mapped", OPERATION_ALL_GATHER, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
