/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the pages of an operation lie in the windows of staging, and from when on a member may fill them.
 *
 * A member fills its own window, unless two members exchange chunks: then each of them fills its own window and that of the
 * other one in turns, so that it writes where it has read before. A CPU that has read a line which another one
 * wrote may write it at once. A line of its own that the other one has read, it has to get back first, which
 * takes a fourth of the time more between CPUs that share a cache, and five times as long between others. The lines must
 * still be in the CPU's caches, so the windows change hands after as many pages as the operation fills, in powers
 * of two (schedule.swap_pages), and not only after a lap.
 *
 * Every page lies at its number modulo swap_pages, or a lap. So what lies where a page comes to lie is of a page that is
 * further back by the smaller of the two operations' numbers, or more: this page's own, within its operation. The
 * other member must have read so far. What the other one filled, this member has read: it ends an operation only
 * when it has read all that the other one fills, and within one it fills chunk k when it may not have read chunk
 * k-1, which lies elsewhere, as at least two chunks fit into swap_pages.
 */
#pragma once

#include "schedule/mapped.h"
#include "schedule/schedule.h"

/* How an operation lies in the windows. */
struct windows {
    uint32_t pages; /* they repeat after so many */
    uint32_t back;  /* so many pages back everything must have been read: pages, or a lap of them */
    bool swaps;     /* the windows change hands after `pages` */
};

/* `mapped` may be NULL: there are no windows then. */
struct windows windows_of(const struct mapped *mapped, const struct schedule *schedule);

/* Where the chunk of local peer `owner` lies that begins on `page` of the operation. */
unsigned char *windows_in(const struct mapped *mapped, const struct windows *windows, int owner,
                          uint32_t page);
unsigned char *windows_out(const struct mapped *mapped, const struct windows *windows, int owner,
                           uint32_t page);

/* What the counters of used pages must have reached where the schedule says `value`, which is as many pages back as `back`
 * says, if it is less than 0. */
uint64_t windows_used_before(const struct mapped *mapped, const struct windows *windows,
                             int64_t value);

/* The operation, of so many pages, is over. Before mapped->pages moves. */
void windows_note(struct mapped *mapped, const struct windows *windows, uint32_t pages);
