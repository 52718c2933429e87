/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error: only on a terminal, drawn at most ten times a second. */
#ifndef TRAIN_DIGITS_PROGRESS_H
#define TRAIN_DIGITS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    uint64_t total;
    double drawn_at;
    int width; /* of the bar, so that the line fits the terminal */
    int drawn; /* characters of the line and its "\r", 0: none yet */
};

struct progress progress_begin(bool wanted, uint64_t total);
void progress_show(struct progress *progress, uint64_t done);
/** Clears the line, for what is printed next. */
void progress_clear(struct progress *progress);

#endif
