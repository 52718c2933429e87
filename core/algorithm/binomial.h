/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binomial trees. Members are counted from the root; the subtree of member v are the members
 * [v, v + d), d being the lowest bit of v, or for the root the first power of two that is not less
 * than the size. v's parent is v - d, its children are v + d/2, v + d/4, … v + 1, as far as they exist.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

static inline int binomial_index(const struct schedule *sched, const struct request *req)
{
    return (sched->rank - req->root + sched->size) % sched->size;
}

static inline int binomial_rank(const struct schedule *sched, const struct request *req, int64_t v)
{
    return (int)((v + req->root) % sched->size);
}

/* d, as above. */
static inline int64_t binomial_distance(const struct schedule *sched, int v)
{
    int64_t distance = 1;

    while (distance < sched->size && !(v & distance))
        distance *= 2;
    return distance;
}

/* How many members [v, v + distance) are. */
static inline uint64_t binomial_members(const struct schedule *sched, int64_t v, int64_t distance)
{
    return min_u64((uint64_t)distance, (uint64_t)(sched->size - v));
}
