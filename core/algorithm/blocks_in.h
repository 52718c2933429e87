/* SPDX-License-Identifier: Apache-2.0 */
/* What scatter, reduce_scatter and all_to_all share on mapped memory: handing out a block for each
 * mate. */
#ifndef TUTTI_ALGORITHM_BLOCKS_IN_H
#define TUTTI_ALGORITHM_BLOCKS_IN_H

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

/* Piece `piece` of each of my blocks for the others goes to its place in my in-slot. */
static inline void blocks_in(struct schedule *sched, const struct request *req, uint64_t each,
                             uint32_t chunk, struct part piece)
{
    const int self = sched->self;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int i = 1; i < sched->mates; i++) {
        const int mate = (self + i) % sched->mates;

        schedule_copy(sched, place_staged_in(self, chunk, staging_part(each, self, mate)),
                      place_after(mate_in_block(req, mate), piece.offset), piece.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
}

#endif
