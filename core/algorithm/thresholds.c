/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in thresholds, and the choice among the plain message algorithms, which composed algorithms
 * make for the members between hosts and dispatch for a whole group.
 *
 * Measured on two cores that share a cache, and for the ring from the cost model: it beats
 * halving-doubling for members that are no power of two from 16 KiB at 3, 128 KiB at 6, 1 MiB at 12
 * and 8 MiB at 24 members, which is the cube.
 */
#include "algorithm/algorithm.h"
#include "algorithm/fold.h"

const struct thresholds thresholds_default = {
    .inline_max = MAPPED_PAYLOAD_MAX,
    .one_phase_max = 256 * 1024,
    .recursive_doubling_max = 16 * 1024,
    .ring_crossover = 16 * 1024,
    .binomial_below = 32 * 1024,
    .direct_below = 16 * 1024,
};

const struct algorithm *all_reduce_by_messages(const struct thresholds *thresholds, int size,
                                               uint64_t bytes)
{
    const double cube = (double)size / 3 * ((double)size / 3) * ((double)size / 3);

    if (bytes <= thresholds->recursive_doubling_max)
        return &all_reduce_recursive_doubling_algorithm;
    if (fold_core(size) != size && (double)bytes > (double)thresholds->ring_crossover * cube)
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
