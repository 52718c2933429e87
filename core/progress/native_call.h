/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that an engine carries out as a whole.
 *
 * As an engine compares nothing, a member whose operation takes longer than a millisecond announces
 * its call to its two neighbours in the ring of ranks, which compare it with theirs and answer. So a
 * mismatch is found where engines would wait for ever, and a deadline can name the members that
 * have not called. Calls in which no member waits are compared by samples (announced.h), and with
 * TUTTI_DEBUG=DETAIL each before it begins.
 */
#pragma once

#include "group/group.h"

/* Moves the call at the head of the queue, whose plan is an engine's; NOT_READY: again later. */
tutti_status native_call_advance(struct tutti_group *group, struct call *call);
/* The group has ended; with `call`, which may be under way, or NULL. */
void native_call_fail(struct tutti_group *group, struct call *call);
/* Called now and then: announces a call that takes long. */
void native_call_look(struct tutti_group *group, int64_t now_ns);
/* Whether a sleeper would hear of news. */
bool native_call_may_sleep(const struct tutti_group *group);
/* The member that the call under way waits for: a neighbour that was asked and has not announced
 * it, else the one that the engine names; rank -1: not known. */
struct waiting native_call_waiting(const struct tutti_group *group, const struct call *call);
