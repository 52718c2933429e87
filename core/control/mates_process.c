/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors by which a host-mate's process is reached. Groups that are made from another one
 * have the same processes in them; so they hold the same descriptors, which are closed with the last
 * group, and a hundred groups of a host cost no more of them than one.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork_close.h"
#include "control/mates.h"

struct mates_process *mates_process_new(int doorbell, int pidfd)
{
    struct mates_process *process = malloc(sizeof *process);

    if (!process) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a process of this host");
        return NULL;
    }
    *process = (struct mates_process){.holders = 1, .doorbell = doorbell, .pidfd = pidfd};
    return process;
}

struct mates_process *mates_process_hold(struct mates_process *process)
{
    if (process)
        atomic_fetch_add(&process->holders, 1);
    return process;
}

void mates_process_drop(struct mates_process *process)
{
    if (!process || atomic_fetch_sub(&process->holders, 1) > 1)
        return;
    close(process->doorbell);
    if (process->pidfd >= 0)
        fork_close_now(process->pidfd);
    free(process);
}

struct mates_process *mates_process_of(const struct mates *mates, int rank)
{
    for (int i = 0; mates && i < mates->count; i++)
        if (mates->peers[i].rank == rank)
            return mates->peers[i].process;
    return NULL;
}
