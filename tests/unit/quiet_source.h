/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an engine's source that a test seldom plays: it may sleep, and nobody has to be told. */
#pragma once

#include "engine/engine.h"

static inline bool quiet_sleep(struct engine_source *source)
{
    (void)source;
    return false;
}

static inline bool quiet_may_sleep(struct engine_source *source)
{
    (void)source;
    return true;
}

static inline void quiet_awake(struct engine_source *source)
{
    (void)source;
}
