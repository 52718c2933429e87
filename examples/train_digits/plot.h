/* SPDX-License-Identifier: Apache-2.0 */
/* The curve of loss and accuracy, drawn by gnuplot when it is installed. */
#ifndef TRAIN_DIGITS_PLOT_H
#define TRAIN_DIGITS_PLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

enum { PLOT_PATIENCE_MS = 30000 }; /* gnuplot takes a tenth of a second */

struct plot_point {
    double loss;     /* mean over the epoch's training images */
    double accuracy; /* on the held-out images, 0..1 */
};

/**
 * Writes the numbers to `path` with the ending .dat and the curve as SVG to `path`. Without gnuplot
 * the numbers are all there is: `ret_drawn` is then false, which is no failure. A gnuplot that takes
 * longer than `patience_ms` is ended.
 */
bool plot_draw(const char *path, const struct plot_point *points, uint32_t count, int patience_ms,
               bool *ret_drawn, struct failure *why);

#endif
