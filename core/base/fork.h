/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(2): the child has none of the threads and must not talk on its parent's connections. Each
 * fork raises the generation in the child; handles remember theirs, and every call compares.
 *
 * Descriptors that a child must not keep are registered here, and closed in the child before fork() returns
 * there. FD_CLOEXEC does not help a child that never calls exec: its copy of a socket holds the connection open
 * after the parent has died, so that the other side waits for an end that does not come, and its copy of a
 * listener holds the port.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t fork_generation;

/* Begins to watch, once; `handler` runs in each child before fork() returns there. */
void fork_watch(void (*handler)(void));

static inline uint32_t fork_current(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

/* Registers `fd`. Without memory for that it is closed by exec only. */
void fork_close_add(int fd);
/* close(2) of a descriptor that may be registered. */
void fork_close_now(int fd);
