/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an engine's source that a test seldom plays: it may sleep, nobody has to be told, and no
 * peer is on the CPU. */
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

static inline bool quiet_shares_cpu(struct engine_source *source, bool asks)
{
    (void)source;
    (void)asks;
    return false;
}

static inline void quiet_awake(struct engine_source *source)
{
    (void)source;
}
