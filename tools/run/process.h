/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of the processes of the job. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The parent of `pid`, 0 when it is gone. */
pid_t process_parent(pid_t pid);

/*
 * Whether `pid` is a rank or was started by it: it, or a process above it, is of the rank's process group.
 * Not one that has left our session, and not one that has left the group and lost its parent.
 */
bool process_is_of(pid_t pid, pid_t rank);
