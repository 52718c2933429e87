/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training, data-parallel: every rank holds the whole net, learns from its share of each step's
 * images, and one all_reduce sums the gradients, so that all ranks take the same step.
 */
#ifndef TRAIN_DIGITS_TRAIN_H
#define TRAIN_DIGITS_TRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "comm.h"
#include "data.h"
#include "failure.h"
#include "net.h"
#include "plot.h"

struct training {
    const struct data *data;
    struct net *net;
    struct comm *comm;
    uint32_t epochs, batch;
    uint64_t seed;
    bool talks;   /* this rank prints a line per epoch and shows the bar */
    FILE *shares; /* receives "epoch step image" for each image learnt from; NULL: nobody asks */
};

/** Trains; collective. `ret_points` has room for one point an epoch, the same on every rank. */
bool train_run(const struct training *t, struct plot_point *ret_points, struct failure *why);

#endif
