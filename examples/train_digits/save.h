/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all: written under a temporary name beside their place, synced,
 * then renamed. A full disk is noticed before the old file is gone.
 */
#ifndef TRAIN_DIGITS_SAVE_H
#define TRAIN_DIGITS_SAVE_H

#include <stdbool.h>
#include <stddef.h>

#include "failure.h"

/** Whether a file could be made at `path`, to fail before the training and not after it. */
bool save_possible(const char *path, struct failure *why);

bool save_bytes(const char *path, const void *bytes, size_t size, struct failure *why);

/** Writes an IDX file of 32-bit floats (type 0x0D) with one dimension. */
bool save_weights(const char *path, const float *weights, size_t count, struct failure *why);

#endif
