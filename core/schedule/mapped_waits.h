/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which counters of the windows a member waits for, so that those that it does not wait for wake nobody.
 */
#pragma once

#include "schedule/mapped.h"

/*
 * Says that I wait until `word` of local peer `index` (-1: of all others) has come to `value`. A member
 * that moves a counter leaves a local peer asleep that still waits for another one: among more ranks than
 * CPUs, to be woken for nothing costs two switches.
 */
void mapped_waits(struct mapped *mapped, int index, enum mapped_word word, uint64_t value);

static inline void mapped_waits_no_more(struct mapped *mapped)
{
    if (!mapped->waits)
        return;
    mapped->waits = false;
    atomic_store_explicit(&mapped->areas[mapped->self]->awaits.value, 0, memory_order_relaxed);
}

/*
 * Whether local peer `index` waits for counters that have not come so far. False: it may wait for
 * anything. Of two that move the last counters at the same time one at least finds them all moved.
 */
bool mapped_still_waits(const struct mapped *mapped, int index);
