/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The division of images among ranks. Each epoch has one order of all images to train on, a function of (seed,
 * epoch); step s takes the s-th run of `batch` of them, whatever the number of ranks, and rank r of
 * n takes every n-th of that run, from its r-th on. So the images of a step are the same set for
 * any n, the ranks' shares are disjoint, and together they are complete. The last step of an epoch
 * may be smaller, and a rank's share of a step may be empty.
 */
#ifndef TRAIN_DIGITS_SHARE_H
#define TRAIN_DIGITS_SHARE_H

#include <stdint.h>

/** Copies `count` indices from `all` to `ret_order` in the epoch's order. */
void share_order(const uint32_t *all, uint32_t count, uint64_t seed, uint32_t epoch,
                 uint32_t *ret_order);

uint32_t share_steps(uint32_t count, uint32_t batch);

/** Images of step `step` over all ranks. */
uint32_t share_batch(uint32_t count, uint32_t batch, uint32_t step);

/* The places in the epoch's order of one rank's images of one step: first, first + stride, … */
struct share {
    uint32_t first, end, stride;
};

struct share share_of_step(uint32_t count, uint32_t batch, uint32_t step, uint32_t rank,
                           uint32_t ranks);

#endif
