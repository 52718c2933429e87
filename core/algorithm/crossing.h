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

/* What I take of one block in one chunk. */
struct taking {
    int block;
    struct part whole;  /* of the block, in the segment */
    struct part piece;  /* of that, in the chunk; may be empty */
    uint32_t chunk, at; /* where it lies in each mate's in-slot */
    bool own;           /* its owner is on this host, else: */
    bool last;          /* afterwards all of `whole` is here, and may leave */
    struct place leave; /* where it is put together */
};

struct crossing {
    const struct request *req;
    uint64_t most;    /* bytes of a block in one segment */
    uint64_t segment; /* which of them */
    /* Called for each block that I take, one chunk behind, when all mates' slots have it. */
    void (*take)(struct schedule *sched, const struct crossing *crossing,
                 const struct taking *taking);
    struct place leave; /* scratch for what goes to other hosts: crossing_rows() times `slot` */
    uint64_t slot;
};

/* What the segment holds of a block; may be empty. */
struct part crossing_whole(const struct crossing *crossing, int block);
/* How many blocks I take for other hosts. */
uint64_t crossing_rows(const struct layout *layout);
/* The bytes of the longest block. */
uint64_t crossing_longest(const struct request *req);

/* All hosts' blocks; only for members with mates. */
void crossing_emit(struct schedule *sched, const struct crossing *crossing);
/* The hand-overs that it costs. */
uint64_t crossing_hand_overs(const struct layout *layout, uint64_t bytes);

#endif
