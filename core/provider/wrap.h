/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers: plugins that stand in front of a world's calls and transports (tutti_wrapper_ops), chosen
 * by tutti_init_options.wrap or TUTTI_WRAP. They are opened before the world is agreed on, so that
 * all members hear of one that cannot be, and shared by the groups that are made from it.
 * group->wrappers is NULL where none was chosen, which is all that a call looks at then.
 *
 * They are no part of the settings that must agree: what a wrapper does changes nothing of what
 * members exchange, so one rank alone may be traced or disturbed.
 */
#pragma once

#include "group/group.h"

/* Opens for a world those that `option`, else TUTTI_WRAP, names. Where there are other members to hear
 * of a failure it becomes world->refusal, and the agreement fails. */
tutti_status wrappers_open(struct tutti_group *world, const char *option);
/* Gives a new group its parent's. */
void wrappers_share(const struct tutti_group *parent, struct tutti_group *group);
/* The group is through with them, its endpoints are closed: the last one closes them. */
void wrappers_leave(struct tutti_group *group);
/* Hands wrappers on the first member what others told theirs; under the progress lock. */
void wrappers_hear(struct tutti_group *group);
/* Before the group leaves: waits for what is still to be heard. */
void wrappers_finish(struct tutti_group *group);
/* The group knows its ranks. */
void wrappers_know(struct tutti_group *group);

/* Puts those that want it in front of an endpoint that is open, the first of them outermost. */
tutti_status wrappers_transport(struct tutti_group *group, struct endpoint *endpoint);

/*
 * The two hooks of a call, under the progress lock. `begin` is called once its record is written; false: a
 * wrapper has refused it, which ends the group. `end` is called before the call leaves its list and
 * returns `status`, or what a wrapper turns success into; a second time for the same call it does
 * nothing.
 */
bool wrappers_begin(struct tutti_group *group, struct call *call);
tutti_status wrappers_end(struct tutti_group *group, struct call *call, tutti_status status);
