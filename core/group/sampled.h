/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of which members of an engine tell each other though none of them waits.
 *
 * An engine compares nothing, and small calls that differ may pass in it without a wait: MPI pairs an
 * all_reduce with a barrier. Telling of each call would cost several times what it takes. So members tell
 * their neighbours of calls with certain numbers, the same on all: the powers of two, then every 1025th. As
 * signatures are chained, each tells of all before it. What comes after the last is compared as members leave.
 */
#ifndef TUTTI_GROUP_SAMPLED_H
#define TUTTI_GROUP_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/call.h"

struct call;
struct tutti_group;

enum { SAMPLES_KEPT = 16 };

struct sampled {
    uint64_t next; /* the next call from this number on is told */
    struct announce kept[SAMPLES_KEPT];
    unsigned count; /* ever kept */
};

static inline bool sampled_is_due(const struct sampled *sampled, uint64_t sequence)
{
    return sequence >= sampled->next;
}

/* Before an engine begins the call: tells of it, and hears what has come meanwhile. False: it must not begin. */
bool sampled_tell(struct tutti_group *group, const struct call *call);
/* This member's call of that number, if it is one of the last that were told; NULL: it is not. */
const struct announce *sampled_find(const struct sampled *sampled, uint64_t sequence);

#endif
