/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of one run: all of them in one array, and two lists of indices into it, those to train
 * on and those held out. An index names the same image on every rank. A folder holds either the
 * digits that come with this program (one set, split by a file of held-out indices) or a set under
 * MNIST's names (two files, whose images are numbered one after the other; t10k is held out).
 */
#ifndef TRAIN_DIGITS_DATA_H
#define TRAIN_DIGITS_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

#define DATA_CLASSES 10

struct data {
    uint32_t count, side;       /* images of side x side pixels */
    uint8_t *pixels;            /* count * side * side */
    uint8_t *labels;            /* count, each below DATA_CLASSES */
    uint32_t *train, *held_out; /* ascending indices, disjoint */
    uint32_t train_count, held_out_count;
    float mean, deviation; /* of the pixels of the images to train on */
};

/** `folder` NULL: where the digits were installed, else the source tree. `held_out_file` NULL:
 * the folder's heldout-indices.txt; only for folders with the digits. data_free() frees. */
bool data_open(const char *folder, const char *held_out_file, struct data *ret_data,
               struct failure *why);
void data_free(struct data *data);

/** The pixels of image `index`, with mean 0 and deviation 1 over the images to train on. */
void data_image(const struct data *data, uint32_t index, float *ret_pixels);

/** A number that differs when images, labels or split differ: ranks compare it before training. */
uint64_t data_fingerprint(const struct data *data);

/** Reads indices below `count` from `path`, one a line, ascending, '#' begins a comment, and
 * splits 0 .. count-1 into those and the rest. Neither part may be empty. data_free() frees, also
 * after a failure. */
bool data_split(const char *path, uint32_t count, struct data *data, struct failure *why);

#endif
