/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of a context, newest first.
 *
 * The progress engine knows only sources, and each source of a context's engine is a group: nothing else is
 * added to one. A group begins with its source, so one address is both. This header alone relies on that.
 * Walk with the progress lock held.
 */
#pragma once

#include <stddef.h>

#include "group/group.h"

_Static_assert(offsetof(struct tutti_group, source) == 0, "a group begins with its source");

/* NULL gives NULL. */
static inline struct tutti_group *group_of_source(struct engine_source *source)
{
    return (struct tutti_group *)source;
}

static inline struct tutti_group *groups_first(const struct tutti_context *context)
{
    return group_of_source(context->engine.sources);
}

static inline struct tutti_group *groups_next(const struct tutti_group *group)
{
    return group_of_source(group->source.next);
}
