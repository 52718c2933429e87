/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef TRAIN_DIGITS_OPTIONS_H
#define TRAIN_DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "failure.h"

struct options {
    uint32_t epochs; /* 0: what suits the images */
    uint32_t batch;  /* images of one step, over all ranks */
    uint64_t seed;
    const char *data, *held_out, *save_weights, *plot, *shares, *device; /* NULL: not given */
    bool quiet, help;
};

bool options_parse(int argc, char **argv, struct options *ret_options, struct failure *why);
void options_print_help(FILE *to);

#endif
