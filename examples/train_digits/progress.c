/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define WIDTH_MAX 40
#define COLUMNS_USUAL 80
#define PREFIX_COLUMNS 8 /* for the rank that `tutti run` writes in front */
#define PAUSE_SECONDS 0.1

/* Under `tutti run` stderr is a pipe, and the launcher says how wide the terminal behind it is. */
static int terminal_columns(void)
{
    const char *said = getenv("TUTTI_RUN_TERMINAL");
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return said && atoi(said) > 1 ? atoi(said) : COLUMNS_USUAL;
}

/* The width of the bar that fits into the line with "[] 123/456 steps". The line must not wrap, or
 * "\r" would lead back to a part of it only. */
static int width_of(uint64_t total)
{
    const int numbers = 2 * snprintf(NULL, 0, "%" PRIu64, total) + (int)sizeof "[] / steps";
    const int room = terminal_columns() - PREFIX_COLUMNS - numbers;

    return room < 1 ? 1 : room < WIDTH_MAX ? room : WIDTH_MAX;
}

struct progress progress_begin(bool wanted, uint64_t total)
{
    bool watched = isatty(STDERR_FILENO) || getenv("TUTTI_RUN_TERMINAL");

    return (struct progress){.shown = wanted && watched,
                             .total = total,
                             .width = wanted && watched ? width_of(total) : 0};
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
    int filled = (int)((uint64_t)progress->width * done / progress->total);
    progress->drawn = fprintf(stderr, "\r[%-*.*s] %" PRIu64 "/%" PRIu64 " steps", progress->width,
                              filled, bar, done, progress->total);
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress->drawn) {
        fprintf(stderr, "\r%*s\r", progress->drawn - 1, "");
        fflush(stderr);
    }
}
