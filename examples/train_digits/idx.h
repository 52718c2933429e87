/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX files, the format of MNIST: a big-endian header (two zero bytes, the element type, the number
 * of dimensions, then each extent as 32 bits), then the elements. Plain or compressed with gzip.
 * Files are taken as hostile: the header is checked against what was asked for and against
 * IDX_MAX_BYTES before anything is allocated, and a file that is shorter or longer than its header
 * says is refused.
 */
#ifndef TRAIN_DIGITS_IDX_H
#define TRAIN_DIGITS_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

/* Well above EMNIST, the largest set of this kind (about 0.6 GB). */
#define IDX_MAX_BYTES (UINT64_C(1) << 30)
#define IDX_MAX_DIMENSIONS 3

struct idx {
    uint32_t extent[IDX_MAX_DIMENSIONS]; /* 1 beyond the file's own dimensions */
    size_t size;                         /* bytes: the product of the extents */
    uint8_t *bytes;                      /* the caller frees */
};

/** Reads a file of unsigned bytes with exactly `dimensions` (1 to 3) dimensions, none empty. */
bool idx_read(const char *path, int dimensions, struct idx *ret_idx, struct failure *why);

#endif
