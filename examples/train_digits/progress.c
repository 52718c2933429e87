/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 40
#define PAUSE_SECONDS 0.1

struct progress progress_begin(bool wanted, uint64_t total)
{
    /* Under `tutti run` stderr is a pipe, and the launcher says whether it ends in a terminal. */
    bool watched = isatty(STDERR_FILENO) || getenv("TUTTI_RUN_TERMINAL");

    return (struct progress){.shown = wanted && watched, .total = total};
}

void progress_show(struct progress *progress, uint64_t done)
{
    static const char bar[] = "########################################";
    struct timespec t;

    if (!progress->shown)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (now - progress->drawn_at < PAUSE_SECONDS)
        return;
    progress->drawn_at = now;
    int filled = (int)(WIDTH * done / progress->total);
    fprintf(stderr, "\r[%-*.*s] %" PRIu64 "/%" PRIu64 " steps", WIDTH, filled, bar, done,
            progress->total);
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress->shown) {
        fprintf(stderr, "\r%*s\r", WIDTH + 32, "");
        fflush(stderr);
    }
}
