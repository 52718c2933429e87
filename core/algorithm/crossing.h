/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that a host's members have for others, brought to who sends them: a block goes, inside
 * its host, to the counterpart of its owner (counterparts.h), who so has it from all mates.
 *
 * Host by host, my own last, everybody puts its blocks for a host's members into its in-slot, and one
 * chunk later each takes those that it is the counterpart for from all others' slots. What taking is,
 * and to what it leads, is the algorithm's own. Long blocks may go in segments.
 */
#ifndef TUTTI_ALGORITHM_CROSSING_H
#define TUTTI_ALGORITHM_CROSSING_H

#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"

/* One chunk: a piece of each block that belongs to a host. */
struct turn {
    int host;
    uint32_t chunk;
    uint64_t each;  /* bytes of a block's piece in a slot */
    uint64_t index; /* of the piece in the segment */
    uint64_t rows;  /* blocks that I take for the hosts before this one */
};

struct crossing {
    const struct request *req;
    uint64_t most;    /* bytes of a block in one segment */
    uint64_t segment; /* which of them */
    /* Called one chunk behind, when all mates' slots have it. */
    void (*take)(struct schedule *sched, const struct crossing *crossing, const struct turn *turn);
    struct place leave; /* take()'s own: where what goes to other hosts is put together, */
    uint64_t slot;      /* and its bytes for each block */
};

/* What the segment holds of a block, and the piece of it in this turn; either may be empty. */
struct part crossing_whole(const struct crossing *crossing, int block);
struct part crossing_piece(const struct crossing *crossing, const struct turn *turn, int block);

/* The block of a host that I take in a row; -1: none. */
int crossing_block(const struct request *req, int host, int row);
/* Where a block's piece lies in each slot. */
uint32_t crossing_place(const struct request *req, const struct turn *turn, int block);
/* How many blocks I take for other hosts. */
uint64_t crossing_rows(const struct layout *layout);
/* The bytes of the longest block. */
uint64_t crossing_longest(const struct request *req);

/* All hosts' blocks; only for members with mates. */
void crossing_emit(struct schedule *sched, const struct crossing *crossing);
/* The hand-overs that it costs. */
uint64_t crossing_hand_overs(const struct layout *layout, uint64_t bytes);

#endif
