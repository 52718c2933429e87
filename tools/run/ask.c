/* SPDX-License-Identifier: Apache-2.0 */
#include "run/ask.h"

#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "run/process.h"

/* Whether the process has a handler for SIGUSR2. */
static bool takes_signal(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", pid), *text = NULL;
    const char *line;

    if (!g_file_get_contents(path, &text, NULL, NULL) || !(line = strstr(text, "\nSigCgt:")))
        return false;
    return g_ascii_strtoull(line + strlen("\nSigCgt:"), NULL, 16) >> (SIGUSR2 - 1) & 1;
}

/* The descriptor makes sure that whom we looked at is whom we signal. */
static bool ask(pid_t pid, pid_t rank)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
    bool asked = pidfd >= 0 && process_is_of(pid, rank) && takes_signal(pid) &&
                 syscall(SYS_pidfd_send_signal, pidfd, SIGUSR2, NULL, 0u) == 0;

    if (pidfd >= 0)
        close(pidfd);
    return asked;
}

bool ask_for_dump(pid_t rank)
{
    g_autoptr(GDir) processes = NULL;
    const char *name;
    bool asked = false;

    if (ask(rank, rank))
        return true;
    processes = g_dir_open("/proc", 0, NULL);
    while (processes && (name = g_dir_read_name(processes))) {
        int pid;

        if (cli_parse_int(name, 1, G_MAXINT, &pid) && process_is_of(pid, rank))
            asked |= ask(pid, rank);
    }
    return asked;
}
