/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that hurt when they are low: each row says what it bounds; a low one, how to raise it. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/cgroup.h"
#include "info/info.h"

/* The descriptors that a member of a large group needs, with a connection to every peer. */
enum { FILES_LOW = 4096 };

static const char *limit_text(rlim_t value, bool bytes, char text[static INFO_SIZE_TEXT])
{
    if (value == RLIM_INFINITY)
        return "unlimited";
    if (bytes)
        return info_size(value, text);
    snprintf(text, INFO_SIZE_TEXT, "%llu", (unsigned long long)value);
    return text;
}

static void files(const struct info_rows *rows)
{
    struct rlimit limit;
    char soft[INFO_SIZE_TEXT], hard[INFO_SIZE_TEXT];

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    info_row(rows, "open files", "%s, at most %s%s", limit_text(limit.rlim_cur, false, soft),
             limit_text(limit.rlim_max, false, hard),
             limit.rlim_cur < FILES_LOW
                 ? "; each connected peer takes a few: raise it with ulimit -n"
                 : "");
}

static void locked_memory(const struct info_rows *rows)
{
    struct rlimit limit;
    char soft[INFO_SIZE_TEXT];

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        info_row(rows, "locked memory", "%s%s", limit_text(limit.rlim_cur, true, soft),
                 limit.rlim_cur == RLIM_INFINITY
                     ? ""
                     : "; shm and tcp need none, RDMA networks need unlimited (ulimit -l)");
}

static void processes(const struct info_rows *rows)
{
    struct rlimit limit;
    char soft[INFO_SIZE_TEXT];
    FILE *file = fopen("/proc/sys/kernel/pid_max", "re");
    int pid_max = 0;

    if (getrlimit(RLIMIT_NPROC, &limit) == 0)
        info_row(rows, "max processes", "%s for this user",
                 limit_text(limit.rlim_cur, false, soft));
    if (file) {
        if (fscanf(file, "%d", &pid_max) == 1)
            info_row(rows, "process numbers", "%d on this host", pid_max);
        fclose(file);
    }
}

static void memory(const struct info_rows *rows)
{
    struct cgroup_limits limits;
    struct statvfs shm;
    char text[INFO_SIZE_TEXT];

    cgroup_limits_read(&limits);
    if (limits.memory_bytes)
        info_row(rows, "memory", "%s, the cgroup's limit; shared segments count against it",
                 info_size(limits.memory_bytes, text));
    else
        info_row(rows, "memory", "no cgroup limit");
    if (statvfs("/dev/shm", &shm) == 0)
        info_row(rows, "/dev/shm", "%s; its size does not matter: segments are memfds",
                 info_size((unsigned long long)shm.f_blocks * shm.f_frsize, text));
    else
        info_row(rows, "/dev/shm", "missing, which does not matter: segments are memfds");
}

void info_limits(const struct info_rows *rows)
{
    files(rows);
    locked_memory(rows);
    processes(rows);
    memory(rows);
}
