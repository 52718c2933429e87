/* SPDX-License-Identifier: Apache-2.0 */
/* Which device each member has, from the offers and the layout: a backend that joins devices needs one for each
 * member. */
#pragma once

#include "agreement/agree_engines.h"
#include "agreement/agree_lead.h"

/* What `auto` may take for tensors on devices: an engine, if this member has named its device, and nobody has to look at,
 * check or encrypt what is moved. */
void devices_consider(struct tutti_group *group);

/* Describes the device of this member in its offer, if one was named: by itself, by its kind before a backend, or by a
 * tensor of the group that this one is made from. */
void devices_offer(const struct tutti_group *group, struct device_offer *ret_offer);

/* Finds each member's device in its offer, once it is known which host each is on. */
void devices_find(struct led_member *members, int size);

/* The first member that has the device of a lower rank, or -1. */
int devices_find_shared(const struct led_member *members, int size, int *ret_lower);

/* Whether `auto` has an engine for tensors on devices. */
enum devices_engine {
    DEVICES_NOWHERE, /* nobody has named a device */
    DEVICES_LACK,    /* `ret_why` says what, on which member */
    DEVICES_JOIN
};
enum devices_engine devices_find_engine(const struct led_member *members, int size,
                                        char ret_why[ENGINES_WORDS_MAX]);

/* Warns that the group does without the engine. */
void devices_warn(const struct tutti_group *group, const char *engine, const char *why);

/* Logs who has which. */
void devices_tell(const struct agreement *a);
