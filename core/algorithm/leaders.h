/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaders: reductions over several hosts, with mapped memory inside them.
 *
 * Every host has the same number of leaders (the members of the smallest host). A vector goes in
 * segments; of each, leader i of a host reduces part i over its local peers, and then talks with the
 * leaders i of all other hosts. So all leaders of a host use the network at once and nothing is
 * sent twice. Members beyond the leaders give and take through them; a host of one member has
 * nothing to do inside.
 * Chunks: in the in-windows a segment's chunks hold a piece for each leader, in the out-windows a
 * leader's result.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

/* A leader's part of one segment: long enough that alpha is small beside it, short enough that
 * scratch stays small. */
enum { LEADERS_PART_BYTES = 1 << 20 };

/* One segment, as a member sees it. */
struct leaders_segment {
    const struct request *req;
    struct part whole; /* in the vector */
    bool shared;       /* my host has other members */
    bool leader;       /* I am one */
    struct part part;  /* mine in the vector; empty: no leader, or a short segment */
    struct place mine; /* where its reduction over my host is, or, alone there, my operand */
    uint64_t each;     /* bytes of a leader's piece of a chunk */
    struct chunk first;
    uint32_t chunks;
};

/* How many segments the vector has. */
uint64_t leaders_segments(const struct request *req);
/* The longest part of a leader in any of them. */
uint64_t leaders_part_bytes(const struct request *req);
/* Segment `index`; takes its chunks. */
struct leaders_segment leaders_segment(struct schedule *sched, const struct request *req,
                                       uint64_t index);

/* Until `to` holds my part of all local peers (unchanged where I have none); segment->mine says so. */
void leaders_reduce(struct schedule *sched, struct leaders_segment *segment, struct place to);
/* My part, from segment->mine to `to`, by messages between the leaders of my index, hosts in their
 * order; a reduce to the one on the root's host. */
void leaders_between_hosts(struct schedule *sched, const struct leaders_segment *segment,
                           enum operation operation, struct place to, bool finish);
/* Hands every leader's part, at `from`, to local peer `to` of the host, or to all (-1), at its place in
 * the output. Each local peer calls it. */
void leaders_hand_out(struct schedule *sched, const struct leaders_segment *segment,
                      struct place from, int to);

/* Of `operation`: inside the hosts until leaders_hand_out(), and between them. */
struct cost leaders_cost(const struct layout *layout, uint64_t bytes, enum operation operation);
