/* SPDX-License-Identifier: Apache-2.0 */
/* How many CPUs this process may really use: what decides whether waiting may spin. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CPUs of this thread's affinity mask; at least 1. */
int cpu_affinity(void);

/* CPUs of the affinity mask, less what the control group's quota takes (rounded down: a thread that
 * spins on a part of a CPU stalls); at least 1. Reads files: ask once. */
int cpu_usable(void);

/* The same of all CPUs that are online, whatever this thread's mask is: what all processes of this host
 * share that are in the same control group. */
int cpu_usable_by_all(void);

/* Of a level 2 cache; 0: unknown. */
uint64_t cpu_l2_bytes(void);

/* How much of this host's level 3 caches each of so many processes has: its part of all of them, and at most one. What
 * a process reads and writes of so much memory does not stay there until it is used again. The first call reads files. */
uint64_t cpu_cache_share(uint32_t processes);

/* The same where those without a CPU do not use their part meanwhile. */
uint64_t cpu_cache_share_of_running(uint32_t processes);

/* The CPUs that a process may use. */
struct cpu_share {
    uint64_t set;   /* cpu_set_id(): processes with the same share them; 0: unknown */
    uint32_t count; /* cpu_usable() */
};

/* Of this process. Reads files: ask once. */
struct cpu_share cpu_share_here(void);

/* Whether processes outnumber all CPUs that they may use. Each set counts once, and those that differ as if they had no
 * CPU in common, so the answer may be no where it could be yes. */
bool cpu_is_crowded(const struct cpu_share *shares, int processes);

/* How many CPUs the kernel lists there, as in "0-7,64-71". */
int cpu_count_listed(const char *list);

/* The same in processes that share the CPUs of cpu_usable(): those of one kernel with one affinity
 * mask and, where a quota takes some of it, in one control group. 0: unknown. Reads files: ask once. */
uint64_t cpu_set_id(void);
