/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, staged: each in-slot holds a piece of the block of every other member; everybody
 * reduces its own block over all members in rank order, one chunk behind. Cost: a pipeline of
 * hand-overs, (n-1) * bytes copied, (n-1) * bytes reduced.
 */
#include "algorithm/algorithm.h"
#include "algorithm/blocks_in.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct request *req, uint64_t each, uint32_t chunk,
                   struct part piece)
{
    const int self = sched->self;
    const struct place to = place_after(req->out, piece.offset);

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_mates(sched, to, place_in_block(self, piece.offset), chunk,
                          self > 0 ? staging_part(each, self - 1, self) : 0,
                          self + 1 < sched->mates ? staging_part(each, self + 1, self) : 0,
                          piece.bytes);
    if (req->finish)
        schedule_finish(sched, to, piece.bytes);
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
        if (k == 0)
            schedule_meet_all(sched);
        if (k > 0) {
            reduce(sched, req, each, first + k - 1, piece_of(whole, each, k - 1));
            if (k < chunks) /* the runner posts the last one */
                staging_post(sched, WORD_IN_USED, first + k - 1);
        }
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t others = layout->size - 1;

    return (struct cost){.hand_overs = pieces_in(bytes, staging_part_bytes(layout->size)),
                         .mapped_bytes = 2 * others * bytes,
                         .reduced_bytes = others * bytes};
}

const struct algorithm reduce_scatter_staged_algorithm = {
    "reduce_scatter_staged", OPERATION_REDUCE_SCATTER, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
