/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link between the CPUs of two ranks: how long the hand-over of a cache line takes. On a virtual
 * machine it changes within seconds, when the host moves a virtual CPU, and every time changes with it.
 *
 * Rank 0 and its peer share a page: the peer opens rank 0's memfd through /proc. That works under
 * every launcher as long as both run on one host for one user, and leaves nothing behind. Both ranks
 * spin, so there is no probe where ranks outnumber CPUs.
 */
#pragma once

#include <stdbool.h>

#include <tutti/group.h>

/* A hand-over takes some 50 ns between cores that share a cache, 200 between sockets or chiplets. */
enum { LINK_FAR_NS = 110 };

struct bench_link;

/* Collective. NULL on all ranks where the link cannot be probed; that is no error. */
tutti_status link_open(tutti_group *world, int peer, struct bench_link **ret_link);
void link_close(struct bench_link *link);

/* Nanoseconds of a hand-over; 0 on ranks that have no part in it, or if the peer did not answer soon.
 * For rank 0 and the peer at about the same time. */
double link_probe(struct bench_link *link);
