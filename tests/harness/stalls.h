/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the machine gave its processors to no thread that asked for them: a virtual machine that
 * its host holds back, or one with more load than it can serve. A budget of time is about what
 * tutti does, so tests that have one add this to it. On each processor a thread asks to be woken
 * every 2 ms and notes by how much that was late; what several note of the same moment counts once.
 */
#pragma once

#include <stdint.h>

/* Begins to watch, until the process ends. Calls after the first do nothing. */
void stalls_watch(void);
/* The stalls between two moments of CLOCK_MONOTONIC, in ms. */
int64_t stalls_ms(int64_t from_ns, int64_t until_ns);
