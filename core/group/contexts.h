/* SPDX-License-Identifier: Apache-2.0 */
/* The list of this process's contexts. */
#pragma once

#include "group/group.h"

/* Numbers it, too. */
void contexts_add(tutti_context *context);
void contexts_remove(tutti_context *context);
/* Calls fn for each context of this process, which stays until fn returns. */
void contexts_each(void (*fn)(tutti_context *context, void *user), void *user);
/* In a forked child: they are its parent's. */
void contexts_forget(void);
