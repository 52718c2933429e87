/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X(NAME, name, standard, crowded, least, most, meaning): the sizes, in bytes, at which one algorithm
 * overtakes another, and by which long calls are cut. A tuning file may set each within its limits
 * (dispatch/tuning.h). `crowded` takes the place of the standard value in a group on one host whose
 * members outnumber their CPUs: there a message costs time of a CPU wherever it is, so algorithms with
 * few messages win. 0: it is the same.
 *
 * All members of a group have the same thresholds: they compare them when the group is made. A threshold
 * is read when a plan is made, and never in a call that has its plan.
 *
 * The standard values were measured on two cores that share a cache, or come from the model, where a
 * message that follows another costs 6 us over TCP and one of several at once 1.5 us. There trees win
 * from 16 members on, below 2 KiB, 5 KiB at 24 and 12 KiB at 64; Bruck's all_to_all wins below 1.3 to
 * 2 KiB. Those of crowded hosts were measured with 4 and 8 members over TCP on 2 CPUs. The
 * tree of a reduce goes in pieces and wins there at every size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/call.h"
#include "schedule/mapped.h"

/* No vector is longer. */
#define THRESHOLD_MOST (UINT64_C(1) << 40)

#define THRESHOLD_LIST(X)                                                                          \
    X(INLINE_MAX, inline_max, MAPPED_PAYLOAD_MAX, 0, 0, MAPPED_PAYLOAD_MAX,                        \
      "the longest vector, or all blocks together, that travels with the announce line")           \
    X(INLINE_EXCHANGE_MAX, inline_exchange_max, 2 * 1024 - 1, MAPPED_PAYLOAD_MAX, 0,               \
      MAPPED_PAYLOAD_MAX,                                                                          \
      "the same, of an operation without a root of two members, if it is less")                    \
    X(STAGED_ONE_PHASE_MAX, staged_one_phase_max, 256 * 1024, 0, 0, THRESHOLD_MOST,                \
      "all members' vectors together, up to which each member reduces the whole vector")           \
    X(ROUNDS_MAX, rounds_max, 32 * 1024, 0, 0, THRESHOLD_MOST,                                     \
      "the longest vector that 8 members reduce in rounds, where ranks outnumber CPUs; it grows "  \
      "with the square of their number")                                                           \
    X(STAGED_CHUNK_MIN, staged_chunk_min, 64 * 1024, 0, MAPPED_PAGE, MAPPED_CHUNK_MAX,             \
      "the shortest chunk of a vector that goes through shared memory")                            \
    X(MESSAGE_PIECE, message_piece, 1024 * 1024, 0, 4096, 16 * 1024 * 1024,                        \
      "the piece of a long message that is reduced while the next one arrives")                    \
    X(PACED_MIN, paced_min, THRESHOLD_MOST, 64 * 1024, 0, THRESHOLD_MOST,                          \
      "the shortest block of a scatter or all_to_all over messages that 8 members or more "        \
      "do not send all at once")                                                                   \
    X(RECURSIVE_DOUBLING_MAX, all_reduce_recursive_doubling_max, 16 * 1024, 32 * 1024, 0,          \
      THRESHOLD_MOST, "the longest vector that recursive doubling takes")                          \
    X(RING_MIN, all_reduce_ring_min, 16 * 1024, 0, 0, THRESHOLD_MOST,                              \
      "the shortest vector that the ring takes with 3 members; it grows with their cube")          \
    X(BROADCAST_SCATTER_MIN, broadcast_scatter_all_gather_min, 32 * 1024, 8 << 20, 0,              \
      THRESHOLD_MOST, "the shortest vector that is cut into a part for each member")               \
    X(REDUCE_PARTS_MIN, reduce_parts_min, 16 * 1024, THRESHOLD_MOST, 0, THRESHOLD_MOST,            \
      "the shortest vector that is cut into a part for each member")                               \
    X(ALL_GATHER_RING_MIN, all_gather_ring_min, 16 * 1024, 0, 0, THRESHOLD_MOST,                   \
      "the shortest block that travels round the ring, with 3 members or more, or 5 where ranks "  \
      "outnumber CPUs; with 4 or more shorter ones travel in Bruck's steps")                       \
    X(ALL_TO_ALL_BRUCK_MAX, all_to_all_bruck_max, 1536 - 1, 6 * 1024, 0, THRESHOLD_MOST,           \
      "the longest block that travels in Bruck's steps, with 4 members or more")                   \
    X(REDUCE_SCATTER_HALVING_MAX, reduce_scatter_halving_max, 8 * 1024, 0, 0, THRESHOLD_MOST,      \
      "the longest block that recursive halving takes, with 8 members, or 4 where ranks "          \
      "outnumber "                                                                                 \
      "CPUs; shorter where their number is no power of 2, from 6 or 5 on")                         \
    X(GATHER_BINOMIAL_MAX, gather_binomial_max, 4 * 1024 - 1, 0, 0, THRESHOLD_MOST,                \
      "the longest block that travels along a tree, with 24 members or more")                      \
    X(SCATTER_BINOMIAL_MAX, scatter_binomial_max, 4 * 1024 - 1, 4 * 1024, 0, THRESHOLD_MOST,       \
      "the longest block that travels along a tree, with 24 members or more, or 4 where ranks "    \
      "outnumber CPUs")

enum threshold {
    THRESHOLD_NONE,
#define THRESHOLD_NUMBER(NAME, ...) THRESHOLD_##NAME,
    THRESHOLD_LIST(THRESHOLD_NUMBER)
#undef THRESHOLD_NUMBER
        THRESHOLDS
};

struct algorithm;

struct thresholds {
    uint64_t bytes[THRESHOLDS];
    bool tuned[THRESHOLDS]; /* by a file */
    bool crowded;           /* the group is on one host, and its members outnumber their CPUs */
    /* Of each operation: what a tuning file names, whatever the size; NULL: the thresholds decide. */
    const struct algorithm *fixed[OPERATION_COUNT];
};

struct threshold_row {
    const char *name;
    uint64_t standard, crowded, least, most;
    const char *meaning;
};

/* Indexed by enum threshold; THRESHOLD_NONE has no name. */
extern const struct threshold_row threshold_rows[THRESHOLDS];
extern const struct thresholds thresholds_standard;

/* The threshold that bounds inline calls of an operation. */
enum threshold thresholds_inline(const struct thresholds *thresholds, int operation, int members);

/* Gives thresholds that no file has set their values for such a group. */
void thresholds_fit(struct thresholds *thresholds, bool crowded);
