/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the members of a crowded host store what their local peers read, call by call of one plan: each
 * copy as plugin_copy.h chooses, or all by streaming stores.
 *
 * Where ranks share CPUs, what a copy costs the writer does not tell. A peer on the same CPU makes plain
 * stores cheap, one on another chiplet makes them cost five times as much, and what is stored costs
 * the readers, too. So whole calls are compared. The first local peer times its calls: a block of them goes
 * the chosen way, and now and then a block goes the other way. The first calls of a block only bring
 * caches and windows to what its stores make of them. The fastest of the rest counts. The others follow: a
 * member that tried alone would not feel what the stores of all cost. They read the way when they begin a
 * call, so one that begins before the first local peer follows a call later.
 *
 * In an operation with a root the first local peer may feel its own stores alone, or its own reads. Both cost
 * less the way that is better for all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    TRIAL_WARM_BYTES = 4 * 1024 * 1024, /* of the windows: they are filled twice */
    TRIAL_CALLS = 4,                    /* of a block that count */
    TRIAL_PAUSE_MAX = 127,              /* blocks between two trials */
    TRIAL_WINS = 2,                     /* trials in a row that the other way must win */
    TRIAL_WINS_BY = 8 /* it wins if it is faster by this part of its time, an eighth */
};

/* Of a plan. But for `plan` all zero: nothing is known yet. */
struct trial {
    uint64_t plan;    /* the same on all members, and even */
    uint64_t cost[2]; /* ticks of the fastest call of the last block; [1]: by streaming stores */
    uint64_t least;   /* of the calls of this block that count; 0: none yet */
    uint64_t bytes;   /* of the windows that this block has used */
    uint32_t calls;   /* of this block that have counted */
    uint32_t blocks;  /* of the chosen way that are still to come before the next trial */
    uint32_t pause;   /* blocks between the last trial and the next one */
    uint32_t wins;    /* trials in a row that the other way has won */
    bool chosen;      /* all copies stream in the chosen way */
    bool streams;     /* all copies stream in this block */
};

struct mapped;

/* Before a call is announced: whether it stores what local peers read by streaming stores. */
bool trial_streams(const struct trial *trial, const struct mapped *mapped);

/* A call is over, which took `ticks`, and `bytes` of the windows. */
void trial_took(struct trial *trial, uint64_t ticks, uint64_t bytes);
