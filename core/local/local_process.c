/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors by which a local peer's process is reached. Groups that are made from another one
 * have the same processes in them; so they hold the same descriptors, which are closed with the last
 * group, and a hundred groups of a host cost no more of them than one.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "local/local.h"

enum { HOLDERS_MAX = 400 }; /* of the 500 that own_pidfd() speaks of */

/* One line of a file of /proc that begins with `key`, as text behind it. */
static bool proc_line(const char *path, const char *key, char *ret_text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool found = false;

    while (file && !found && fgets(ret_text, (int)capacity, file))
        found = !strncmp(ret_text, key, strlen(key));
    if (file)
        fclose(file);
    if (found)
        memmove(ret_text, ret_text + strlen(key), strlen(ret_text + strlen(key)) + 1);
    return found;
}

/* The number of a descriptor's process, as /proc has it: of the PID namespace that is mounted there. -1: the
 * process has ended; 0: not known, or of another namespace. */
static int pid_of(int pidfd)
{
    char path[64], text[128];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    return pidfd >= 0 && proc_line(path, "Pid:", text, sizeof text) ? atoi(text) : 0;
}

/*
 * The same process by a file of this process alone, in exchange for one that all local peers have: the kernel lets
 * a file be watched through 500 pairs of nested epoll sets, whosever they are. The number is still the
 * process's if that lives afterwards; read back by the same /proc it shows that this is our namespace.
 */
static int own_pidfd(int common)
{
    const int pid = pid_of(common);
    const int own = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct pollfd death = {.fd = common, .events = POLLIN};

    if (own < 0)
        return common;
    if (pid_of(own) != pid || poll(&death, 1, 0) != 0) {
        close(own);
        return common;
    }
    close(common);
    return own;
}

struct local_process *local_process_new(int doorbell, int pidfd)
{
    struct local_process *process = malloc(sizeof *process);

    if (!process) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a process of this host");
        return NULL;
    }
    *process =
        (struct local_process){.holders = 1, .doorbell = doorbell, .pidfd = own_pidfd(pidfd)};
    return process;
}

struct local_process *local_process_hold(struct local_process *process)
{
    if (!process || atomic_load(&process->holders) >= HOLDERS_MAX)
        return NULL;
    atomic_fetch_add(&process->holders, 1);
    return process;
}

void local_process_drop(struct local_process *process)
{
    if (!process || atomic_fetch_sub(&process->holders, 1) > 1)
        return;
    close(process->doorbell);
    if (process->pidfd >= 0)
        fork_close_now(process->pidfd);
    free(process);
}

struct local_process *local_process_of(const struct local_peers *local, int rank)
{
    for (int i = 0; local && i < local->count; i++)
        if (local->peers[i].rank == rank)
            return local->peers[i].process;
    return NULL;
}

static const char *state_of(int pidfd)
{
    static const struct {
        char letter;
        const char *words;
    } states[] = {{'R', "running"}, {'S', "sleeping"}, {'D', "disk"}, {'T', "stopped"},
                  {'t', "traced"},  {'Z', "dead"},     {'X', "dead"}};
    char path[64], text[128];
    const int pid = pid_of(pidfd);

    if (pid <= 0)
        return pid ? "dead" : NULL;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (!proc_line(path, "State:", text, sizeof text))
        return NULL;
    char letter = text[strspn(text, " \t")];
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i].letter == letter)
            return states[i].words;
    return NULL;
}

const char *local_process_state(const struct local_peers *local, int rank)
{
    for (int i = 0; local && i < local->count; i++)
        if (i != local->self && local->peers[i].rank == rank)
            return state_of(local->peers[i].death.fd);
    return NULL;
}

int local_process_number(const struct local_peers *local, int index)
{
    const struct local_process *process = local->peers[index].process;
    const int pid = process ? pid_of(process->pidfd) : getpid();

    return pid > 0 ? pid : 0;
}
