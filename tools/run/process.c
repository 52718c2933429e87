/* SPDX-License-Identifier: Apache-2.0 */
#include "run/process.h"

#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The name in the second field may hold anything. */
pid_t process_parent(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;

    g_snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;

    const char *after_name = strrchr(text, ')');

    if (!after_name || sscanf(after_name, ") %*c %d", &parent) != 1)
        return 0;
    return parent;
}

bool process_is_of(pid_t pid, pid_t rank)
{
    if (getsid(pid) != getsid(0))
        return false;
    for (pid_t at = pid; at > 1 && at != getpid(); at = process_parent(at))
        if (getpgid(at) == rank)
            return true;
    return false;
}
