/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control groups of this process allow it, for versions 1 and 2. A group's limit binds
 * all below it, so the smallest on the way from ours to the root of the mount counts. In a
 * container our path may not be visible below the mount; the mount's own root is our group then.
 */
#pragma once

#include <stdint.h>

enum { BOOT_ID_ROOM = 40 };

struct cgroup_limits {
    double cpus;           /* CPU time a second, 0: no limit */
    uint64_t memory_bytes; /* 0: no limit */
};

/* Reads a few files; never fails: what cannot be read is no limit. */
void cgroup_limits_read(struct cgroup_limits *ret_limits);

/* The same in processes of one control group, and other in those of another container. */
uint64_t cgroup_id(void);

/* Which kernel this process runs on: the same in all containers and namespaces of one boot. "" where /proc does
 * not tell. */
void boot_id(char ret_id[BOOT_ID_ROOM]);
