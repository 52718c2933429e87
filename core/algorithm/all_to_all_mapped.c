/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, mapped: each in-slot holds a piece for every other member; everybody copies what is
 * meant for it out of all others' one chunk behind. Cost: a pipeline of hand-overs, 2 (n-1) * bytes
 * copied.
 */
#include "algorithm/algorithm.h"
#include "algorithm/blocks_in.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static void copy_out(struct schedule *sched, const struct request *req, uint64_t each,
                     uint32_t chunk, struct part piece)
{
    for (int i = 1; i < sched->mates; i++) {
        const int mate = (sched->self + i) % sched->mates;

        staging_await(sched, mate, WORD_IN_READY, chunk);
        schedule_copy(sched, place_after(mate_out_block(req, mate), piece.offset),
                      place_staged_in(mate, chunk, staging_part(each, mate, sched->self)),
                      piece.bytes);
    }
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t each = staging_part_bytes(sched->mates);
    const uint32_t chunks = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, chunks);
    const struct part whole = {0, req->bytes};

    for (uint32_t k = 0; k <= chunks; k++) {
        if (k < chunks)
            blocks_in(sched, req, each, first + k, piece_of(whole, each, k));
        if (k == 0) {
            schedule_copy(sched, mate_out_block(req, sched->self), mate_in_block(req, sched->self),
                          req->bytes);
            schedule_meet_all(sched);
        }
        if (k > 0) {
            copy_out(sched, req, each, first + k - 1, piece_of(whole, each, k - 1));
            if (k < chunks) /* the runner posts the last one */
                staging_post(sched, WORD_IN_USED, first + k - 1);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return (struct cost){.hand_overs = pieces_in(bytes, staging_part_bytes(layout->size)),
                         .mapped_bytes = 2 * (layout->size - 1) * bytes};
}

const struct algorithm all_to_all_mapped_algorithm = {
    "all_to_all_mapped", OPERATION_ALL_TO_ALL, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
