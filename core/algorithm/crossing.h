/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the blocks that a host's members have for other hosts to the member that sends them:
 * inside its host a block goes to the counterpart of its owner (counterparts.h), which so gets the
 * blocks of all local peers.
 *
 * Host by host, my own last, everybody puts its blocks for a host's members into its in-window, and one
 * chunk later each takes those that it is the counterpart for from all others' windows. What taking is,
 * and to what it leads, is the algorithm's own. Long blocks may go in segments.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"

/* The part of one block that I take in one chunk. */
struct taking {
    int block;
    struct part whole; /* of the block, in the segment */
    struct part piece; /* of that, in the chunk; may be empty */
    struct chunk chunk;
    uint32_t at;        /* where it lies in each local peer's chunk */
    bool own;           /* its owner is on this host, else: */
    bool last;          /* afterwards all of `whole` is here, and may leave */
    struct place leave; /* where it is put together */
};

struct crossing {
    const struct request *req;
    uint64_t most;    /* bytes of a block in one segment */
    uint64_t segment; /* which of them */
    /* Called for each block that I take, one chunk behind, when all local peers' windows have it. */
    void (*take)(struct schedule *sched, const struct crossing *crossing,
                 const struct taking *taking);
    struct place leave; /* scratch for what goes to other hosts: crossing_rows() times `slot` */
    uint64_t slot;
};

/* The part of a block that the segment holds; may be empty. */
struct part crossing_whole(const struct crossing *crossing, int block);
/* How many blocks I take for other hosts. */
uint64_t crossing_rows(const struct layout *layout);

/* All hosts' blocks; only for members with local peers. */
void crossing_emit(struct schedule *sched, const struct crossing *crossing);
/* The hand-overs that it costs. */
uint64_t crossing_hand_overs(const struct layout *layout, uint64_t bytes);
