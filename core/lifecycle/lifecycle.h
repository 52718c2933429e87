/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and how groups begin and end. */
#pragma once

#include "group/group.h"

/* ---- context.c ---- */

/* `given`, or the default context, which is made when it is first needed; FORKED in a child. */
tutti_status context_find(tutti_context *given, tutti_context **ret_context);
/* The world becomes the default group, if it is of the default context and there is none. */
void context_offer_default(struct tutti_group *world);
/* The group ends; so it is no default group any more. */
void context_drop_default(const struct tutti_group *group);

/* ---- init.c ---- */

/* A group without members yet; ends with group_free(). `timeout_ms` 0: the default. */
tutti_status group_create(struct tutti_context *context, const char *name, int64_t timeout_ms,
                          struct tutti_group **ret_group);
/* The members, of which bootstrap, origin and key tell, agree; calls may be made afterwards. */
tutti_status group_form(struct tutti_group *group);
void group_free(struct tutti_group *group);

/* ---- subgroup.c ---- */

/* The group is the process's next world. */
tutti_status origin_begin(struct tutti_group *world);
void origin_free(struct origin *origin);
