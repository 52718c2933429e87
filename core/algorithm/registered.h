/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on tensors in registered memory, which all members map: each reads the others' inputs and
 * writes their outputs in place. When such a schedule begins, all lines that decide have been met, so the
 * inputs are there. A member whose memory others use waits until they are through with it; the counters
 * tell that as they do in the windows, of which one page is taken and not touched.
 *
 * Where a member's input or output has a block for each member, others use their own alone. So a place of it
 * begins with this member's block.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

enum {
    /* Bytes of a piece that is reduced and then copied on: it stays in L1 on the way. Longer vectors have
     * longer pieces, so that a schedule has at most REGISTERED_PIECES of them. */
    REGISTERED_PIECE_MIN = 8 * 1024,
    REGISTERED_PIECE_MAX = 256 * 1024,
    REGISTERED_PIECES = 256
};

static inline uint64_t registered_piece_bytes(uint64_t bytes)
{
    const uint64_t piece = round_up(bytes / REGISTERED_PIECES, PART_ALIGN);

    return min_u64(max_u64(piece, REGISTERED_PIECE_MIN), REGISTERED_PIECE_MAX);
}

/* I am through with the others' memory. */
static inline void registered_leave(struct schedule *sched)
{
    const struct chunk page = schedule_chunks(sched, 1, MAPPED_PAGE);

    schedule_post(sched, WORD_IN_USED, (int64_t)page.page + page.pages);
}

/* The same; and all others are through with mine. */
static inline void registered_leave_together(struct schedule *sched)
{
    registered_leave(sched);
    schedule_await_all(sched, WORD_IN_USED, sched->pages);
}

/* The same, of an operation in which all use the root's memory alone. */
static inline void registered_leave_root(struct schedule *sched, int root)
{
    registered_leave(sched);
    if (sched->self == root)
        schedule_await_all(sched, WORD_IN_USED, sched->pages);
}
