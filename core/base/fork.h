/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(2): the child has none of the threads and must not talk on its parent's connections. Each
 * fork raises the generation in the child; handles remember theirs, and every call compares.
 */
#ifndef TUTTI_BASE_FORK_H
#define TUTTI_BASE_FORK_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t fork_generation;

/* Begins to watch, once; `in_child` runs in each child before fork() returns there. */
void fork_watch(void (*in_child)(void));

static inline uint32_t fork_current(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

#endif
