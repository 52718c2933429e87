/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that does a group's whole operations: opening its team, and one collective at a time.
 *
 * An engine is asked again and again and never waited for; deadlines, dead members and verdicts are
 * the core's, and the first thing that the core does with a group that has ended is to abort the team.
 * As an engine compares nothing, a member whose operation takes longer than a millisecond announces
 * its call to its two neighbours in the ring of ranks, which compare it with theirs and answer. So a
 * mismatch is found where engines would wait for ever, and a deadline can name who has not called. Of calls
 * in which nobody waits sampled.h tells; with TUTTI_DEBUG=DETAIL each is compared before it begins.
 */
#ifndef TUTTI_GROUP_NATIVE_H
#define TUTTI_GROUP_NATIVE_H

#include "group/group.h"

/* This member's side of the team of backend `name`, after the transports were opened. */
tutti_status native_open(struct tutti_group *group, const char *name, const int *host_of,
                         const uint8_t token[CONTROL_TOKEN_BYTES], int64_t deadline_ns);
/* The roster is there: begins to join the members. Nothing where the group has no engine. */
tutti_status native_form(struct tutti_group *group);
/* NOT_READY until operations may be started. */
tutti_status native_form_test(struct tutti_group *group);
/* Aborts and closes the team. */
void native_close(struct tutti_group *group);

/* What plans are made from; NULL: no engine. */
const struct native_facts *native_facts(const struct tutti_group *group);

/* Where each rank has a CPU, an engine is tested so often at once: a test takes no longer than the way to
 * it. */
enum { NATIVE_TESTS_IN_A_ROW = 8 };

/* Moves the call at the head of the queue, whose plan is an engine's; NOT_READY: again later. */
tutti_status native_advance(struct tutti_group *group, struct call *call);
/* The group has ended; with `call`, which may be under way, or NULL. */
void native_fail(struct tutti_group *group, struct call *call);
/* Called now and then: announces a call that takes long. */
void native_look(struct tutti_group *group, int64_t now_ns);
/* Whether a sleeper would hear of news. */
bool native_may_sleep(const struct tutti_group *group);
/* Whether it has to be asked again and again. */
bool native_is_polled(const struct tutti_group *group);
/* The neighbours, which are asked first; both may be the same. */
void native_neighbours(const struct tutti_group *group, int ret_ranks[2]);
/* Whether it works on threads of its own and the host has too few cores for them beside those who wait. */
bool native_needs_cores(const struct tutti_group *group);
/* Whom the call under way waits for: a neighbour that has not announced it though it was asked, else whom
 * the engine names; rank -1: it is not known. */
struct waiting native_waiting(const struct tutti_group *group, const struct call *call);

#endif
