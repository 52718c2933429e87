/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the members of a group store, call by call of one plan: what their local peers read (on crowded hosts), and the
 * outputs that a cache may hold or not (copies.h), by plain or by streaming stores.
 *
 * What a copy costs the writer does not tell which is better. Where ranks share CPUs, a peer on the same CPU makes plain
 * stores cheap, one on another chiplet makes them cost five times as much. Outputs that are stored past the caches take the
 * bandwidth of the memory from all members. And what is stored costs the readers, too. So whole calls are compared.
 *
 * One member decides. It times its calls, without the waits for the others to begin: a block of them goes the chosen way, and now
 * and then a block goes another way, with one kind of stores changed. The first calls of a block only bring caches and
 * windows to what its stores make of them. The fastest of the rest counts. The others follow: a
 * member that tried alone would not feel what the stores of all cost. They read the way when they begin a
 * call, so one that begins before the member that decides follows a call later.
 *
 * In an operation with a root the member decides that waits longest: the root, if it gets the others' data, and
 * else the one behind it (schedule.decider). Between hosts, and without a root, it is the first local peer. Calls in
 * registered memory, and those of tensors with strides, are not tried.
 */
#pragma once

#include <stdint.h>

/* A way: of which kinds all stores stream. Of those that it has not, windows are stored as plugin_copy.h chooses for
 * each copy, and outputs by plain stores. */
enum {
    TRIAL_WINDOWS = 1, /* what local peers read */
    TRIAL_OUTPUTS = 2, /* that a cache may hold or not */
    TRIAL_KINDS = 2,
    TRIAL_WAYS = 1 << TRIAL_KINDS
};

enum {
    TRIAL_WARM_BYTES = 4 * 1024 * 1024, /* of the windows: they are filled twice or more */
    TRIAL_WARM_CALLS = 2,               /* at least */
    TRIAL_CALLS = 4,                    /* of a block that count */
    TRIAL_PAUSE_MAX = 127,              /* blocks between two trials of a kind */
    TRIAL_WINS = 2,                     /* trials in a row that the other way must win */
    TRIAL_WINS_BY = 8 /* it wins if it is faster by this part of its time, an eighth */
};

/* Of one kind of stores. */
struct trial_kind {
    uint32_t blocks; /* of the chosen way that are still to come before the next trial */
    uint32_t pause;  /* blocks between the last trial and the next one */
    uint32_t wins;   /* trials in a row that the other way has won */
};

/* Of a plan. All zero, but for `plan`, `may`, and `chosen` and `way`, which are alike: nothing is known yet. */
struct trial {
    uint64_t plan;             /* the same on all members, and a multiple of TRIAL_WAYS */
    uint64_t cost[TRIAL_WAYS]; /* ticks of the fastest call of the last block of each way */
    uint64_t least;            /* of the calls of this block that count; 0: none yet */
    uint64_t bytes;            /* of the windows that this block has used */
    uint32_t calls;            /* of this block, those that count and those before */
    uint32_t counted;          /* of them */
    struct trial_kind kinds[TRIAL_KINDS];
    uint8_t may;    /* kinds that this member's calls have: which it tries if it decides */
    uint8_t chosen; /* the way */
    uint8_t way;    /* of this block */
};

struct mapped;

/* Before a call is announced: its way. `decider` is a local peer. */
uint8_t trial_way(const struct trial *trial, const struct mapped *mapped, int decider);

/* A call is over, which took `ticks`, and `bytes` of the windows. For the member that decides. */
void trial_took(struct trial *trial, uint64_t ticks, uint64_t bytes);
