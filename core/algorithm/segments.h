/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over messages of which each member does its n-th: the vector goes in segments, so that
 * the scratch stays small; each member sends every part of a segment to the part's member, which
 * reduces the operands of all in rank order. The algorithm decides which members get the results.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

struct segment {
    struct part whole;    /* of the vector */
    struct place scratch; /* of the others' operands; one slot more than there are others */
    uint64_t each;        /* bytes of a slot */
};

/* The part of the vector that belongs to member `rank`; may be empty. */
struct part segment_part(const struct schedule *sched, const struct segment *s, int rank);
/* Everybody gets the operands of its part; with a fence. In the first segment also where the part
 * is empty, so that all members meet, and one that calls something else is found. */
void segment_exchange(struct schedule *sched, const struct request *req, const struct segment *s);
/* My part's operands, reduced and finished. */
void segment_reduce(struct schedule *sched, const struct request *req, const struct segment *s,
                    struct place to);
/* Receives all parts but mine to where they belong in the output. */
void segment_collect(struct schedule *sched, const struct request *req, const struct segment *s);

/* Calls `run` for one segment after the other; two neighbours have scratch of their own. */
void segments_emit(struct schedule *sched, const struct request *req,
                   void (*run)(struct schedule *sched, const struct request *req,
                               const struct segment *s));
