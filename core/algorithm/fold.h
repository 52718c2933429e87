/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are no power of two: before the exchange, each of the first `extra` pairs of
 * neighbours puts its vectors together at the odd one, and afterwards the odd one gives the result
 * back. What is left is a core of 2^k members, numbered in the order of their ranks.
 */
#pragma once

#include "algorithm/algorithm.h"

struct fold {
    int core;          /* members of the core, a power of two */
    int extra;         /* members outside of it */
    int index;         /* mine in the core, -1: outside */
    struct place mine; /* where my operand lies now */
};

struct fold fold_in(struct schedule *sched, const struct request *req);
void fold_out(struct schedule *sched, const struct request *req, const struct fold *fold);

/* The rank of a member of the core. */
static inline int fold_rank(const struct fold *fold, int index)
{
    return index < fold->extra ? 2 * index + 1 : index + fold->extra;
}

static inline int fold_core(int size)
{
    int core = 1;

    while (core <= size / 2)
        core *= 2;
    return core;
}
