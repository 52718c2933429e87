/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in thresholds, and the choice among the plain message algorithms, which composed algorithms
 * make for the members between hosts and dispatch for a whole group.
 *
 * Measured on two cores that share a cache, and for the ring from the cost model: it beats
 * halving-doubling for members that are no power of two from 16 KiB at 3, 128 KiB at 6, 1 MiB at 12
 * and 8 MiB at 24 members, which is the cube.
 *
 * For blocks that travel together from the model, where a message that follows another costs 6 us over
 * TCP and one of several at once 1.5 us: trees win from 16 members on, below 2 KiB there, 5 KiB at
 * 24 and 12 KiB at 64; they begin late, since at half the price of a message at once 16 becomes 32.
 * Bruck's all_gather wins from 8 members, below 10 KiB there and 19 KiB at 16; its all_to_all below
 * 1.3 to 2 KiB.
 */
#include "algorithm/algorithm.h"
#include "algorithm/fold.h"
#include "algorithm/parts.h"

const struct thresholds thresholds_default = {
    .inline_max = MAPPED_PAYLOAD_MAX,
    .one_phase_max = 256 * 1024,
    .recursive_doubling_max = 16 * 1024,
    .ring_crossover = 16 * 1024,
    .binomial_below = 32 * 1024,
    .direct_below = 16 * 1024,
    .tree_from = 24,
    .tree_below = 4 * 1024,
    .bruck_from = 8,
    .bruck_below = 1536,
};

const struct algorithm *all_reduce_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes)
{
    const uint64_t n = (uint64_t)size; /* bytes > ring_crossover * (n / 3)^3, in whole numbers */

    if (bytes <= thresholds->recursive_doubling_max)
        return &all_reduce_recursive_doubling_algorithm;
    if (fold_core(size) != size && pieces_in(27 * bytes, n * n * n) > thresholds->ring_crossover)
        return &all_reduce_ring_algorithm;
    return &all_reduce_halving_doubling_algorithm;
}

const struct algorithm *broadcast_by_messages(const struct thresholds *thresholds, int size,
                                              uint64_t bytes)
{
    if (size <= 2 || bytes < thresholds->binomial_below)
        return &broadcast_binomial_algorithm;
    return &broadcast_scatter_all_gather_algorithm;
}

const struct algorithm *all_gather_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes)
{
    if (size > 2 && bytes >= thresholds->direct_below)
        return &all_gather_ring_algorithm;
    return size < thresholds->bruck_from ? &all_gather_direct_algorithm
                                         : &all_gather_bruck_algorithm;
}

static bool take_tree(const struct thresholds *thresholds, int size, uint64_t bytes)
{
    return size >= thresholds->tree_from && blocks_together(thresholds, bytes);
}

const struct algorithm *gather_by_messages(const struct thresholds *thresholds, int size,
                                           uint64_t bytes)
{
    return take_tree(thresholds, size, bytes) ? &gather_binomial_algorithm
                                              : &gather_direct_algorithm;
}

const struct algorithm *scatter_by_messages(const struct thresholds *thresholds, int size,
                                            uint64_t bytes)
{
    return take_tree(thresholds, size, bytes) ? &scatter_binomial_algorithm
                                              : &scatter_direct_algorithm;
}

const struct algorithm *all_to_all_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes)
{
    return size >= thresholds->bruck_from && bytes < thresholds->bruck_below
               ? &all_to_all_bruck_algorithm
               : &all_to_all_direct_algorithm;
}

const struct algorithm *reduce_by_messages(const struct thresholds *thresholds, int size,
                                           uint64_t bytes)
{
    if (size <= 2 || bytes < thresholds->binomial_below)
        return &reduce_binomial_algorithm;
    return &reduce_parts_algorithm;
}
