/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over mapped memory of which each member does its n-th for all: three stages run one
 * chunk apart. Copy the others' parts to my in-slot; reduce my part from everybody's in-slots; take
 * the others' results from their out-slots. Who wants the results is the algorithm's own. Invariant:
 * in turn k the slots hold chunk k going in, k-1 being reduced, k-2 going out.
 */
#ifndef TUTTI_ALGORITHM_STAGED_PARTS_H
#define TUTTI_ALGORITHM_STAGED_PARTS_H

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

struct staged_parts {
    const struct request *req;
    uint64_t each; /* bytes of one piece: n-1 of them fill an in-slot */
    uint32_t first, chunks;
};

/* Where in the vector the piece of `part` is in this turn; may be empty. */
struct part staged_parts_piece(const struct schedule *sched, const struct staged_parts *s, int part,
                               uint32_t turn);
/* My piece, reduced over all members and finished; gives the in-slots back. */
void staged_parts_reduce(struct schedule *sched, const struct staged_parts *s, uint32_t turn,
                         struct place to);
/* All other members' results, from their out-slots; gives those back but in the last turn, where the
 * runner does. */
void staged_parts_collect(struct schedule *sched, const struct staged_parts *s, uint32_t turn);

typedef void (*staged_parts_fn)(struct schedule *sched, const struct staged_parts *s,
                                uint32_t turn);

struct staged_parts staged_parts_of(struct schedule *sched, const struct request *req);
/* `reduce` and `take` are called for one turn after the other; `take` may be NULL. */
tutti_status staged_parts_emit(struct schedule *sched, const struct staged_parts *s,
                               staged_parts_fn reduce, staged_parts_fn take);

#endif
