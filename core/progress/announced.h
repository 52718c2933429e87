/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members that are known to have called. A message of a collective tells that its sender has
 * called it; where none has come, the sender may itself be waiting. So a member that has waited for
 * a little announces its call to the peer that it waits for. The peer compares it and answers with
 * its own announcement as soon as it has called. A peer that was asked and has announced nothing
 * has not called, or does not run. Each is answered once, with the call that it asked about, even
 * by a peer that is ahead: an asker may need to know that both called the same before it begins.
 *
 * An engine compares nothing, and small calls that differ may pass in it without a wait: MPI pairs
 * an all_reduce with a barrier. To announce each call would cost several times what it takes. So
 * members announce samples to their neighbours, calls with certain numbers, the same on all: the
 * powers of two, then every 1025th. As signatures are chained, each sample stands for all calls
 * before it. What comes after the last sample is compared as members leave.
 */
#pragma once

#include "group/group.h"

/* False: no memory. */
bool announced_init(struct announced *announced, int size);
void announced_free(struct announced *announced);

/* `source` has called `sequence`. */
void announced_received(struct tutti_group *group, int source, uint64_t sequence);
/* … and asks whether this member has. */
void announced_queried(struct tutti_group *group, int source, uint64_t sequence);
/* `source` has called the same as this member up to `sequence`. */
void announced_agreed(struct tutti_group *group, int source, uint64_t sequence);
/* Announces this member's call to `to`, once. */
void announced_send(struct tutti_group *group, int to, const struct announce *call);
/* The same to the two neighbours in the ring of ranks. */
void announced_send_to_neighbours(struct tutti_group *group, const struct announce *call);
/* Answers the peers that asked about calls that this member has made by now; whether there was
 * one. */
bool announced_answer(struct tutti_group *group);
/* Whether the member is known to have called it. */
bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member is known to have called the same, or cannot be asked any more. */
bool announced_agrees(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member was asked about the call, and has not been heard of in it. */
bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence);

static inline bool announced_is_sample(const struct announced *announced, uint64_t sequence)
{
    return sequence >= announced->next_sample;
}

/* Before an engine begins the call: announces it, and hears what has come meanwhile. False: it must not begin. */
bool announced_sample(struct tutti_group *group, const struct call *call);
/* This member's call of that number, if it is one of the last samples; NULL: it is not. */
const struct announce *announced_find_sample(const struct announced *announced, uint64_t sequence);
