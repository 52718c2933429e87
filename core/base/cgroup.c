/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text.h"

enum { TEXT_MAX = 4096 };

/* No limit in version 1 is the largest multiple of a page. */
#define MEMORY_NO_LIMIT (UINT64_C(1) << 62)

static bool read_text(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;

    ssize_t got = read(fd, text, TEXT_MAX - 1);

    close(fd);
    if (got < 0)
        return false;
    text[got] = 0;
    return true;
}

/* Our group's path in the hierarchy of `controller` ("": version 2). */
static bool find_group(const char *controller, char *ret_path)
{
    char text[TEXT_MAX], *rest = text, *line;

    if (!read_text("/proc/self/cgroup", text))
        return false;
    while ((line = strsep(&rest, "\n"))) { /* id:controllers:path */
        strsep(&line, ":");

        const char *controllers = strsep(&line, ":");

        if (line && (*controller ? text_list_has(controllers, controller) : !*controllers)) {
            snprintf(ret_path, TEXT_MAX, "%s", line);
            return true;
        }
    }
    return false;
}

/* Calls fn with the text of `file` in our group and in each one above. */
static void for_each_group(const char *controller, const char *file,
                           void (*fn)(const char *text, const char *folder, void *user), void *user)
{
    char group[TEXT_MAX], folder[PATH_MAX], path[PATH_MAX], text[TEXT_MAX];

    if (!find_group(controller, group))
        return;
    for (;;) {
        char *last = strrchr(group, '/');

        if (!last)
            return;
        if (snprintf(folder, sizeof folder, "/sys/fs/cgroup/%s%s", controller, group) <
                (int)sizeof folder &&
            snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path &&
            read_text(path, text))
            fn(text, folder, user);
        if (!group[1])
            return;
        last[last == group] = 0; /* up one; "/a" becomes "/" */
    }
}

static void at_most_cpus(struct cgroup_limits *limits, double quota, double period)
{
    if (quota > 0 && period > 0 && (limits->cpus <= 0 || quota / period < limits->cpus))
        limits->cpus = quota / period;
}

static void cpu_v2(const char *text, const char *folder, void *user)
{
    char *end;
    const long long quota = strtoll(text, &end, 10); /* "max 100000" is no number */

    (void)folder;
    if (end != text)
        at_most_cpus(user, (double)quota, strtod(end, NULL));
}

static void cpu_v1(const char *text, const char *folder, void *user)
{
    char path[PATH_MAX], period[TEXT_MAX];

    if (snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) < (int)sizeof path &&
        read_text(path, period))
        at_most_cpus(user, (double)strtoll(text, NULL, 10), (double)strtoll(period, NULL, 10));
}

static void memory(const char *text, const char *folder, void *user)
{
    struct cgroup_limits *limits = user;
    uint64_t bytes = strtoull(text, NULL, 10); /* "max" gives 0 */

    (void)folder;
    if (bytes && bytes < MEMORY_NO_LIMIT && (!limits->memory_bytes || bytes < limits->memory_bytes))
        limits->memory_bytes = bytes;
}

void cgroup_limits_read(struct cgroup_limits *ret_limits)
{
    *ret_limits = (struct cgroup_limits){0};
    for_each_group("", "cpu.max", cpu_v2, ret_limits);
    for_each_group("cpu", "cpu.cfs_quota_us", cpu_v1, ret_limits);
    for_each_group("", "memory.max", memory, ret_limits);
    for_each_group("memory", "memory.limit_in_bytes", memory, ret_limits);
}

uint64_t cgroup_id(void)
{
    char text[TEXT_MAX] = "";
    struct stat space = {0};

    /* In a namespace of its own each container's path is "/". */
    (void)stat("/proc/self/ns/cgroup", &space);
    (void)read_text("/proc/self/cgroup", text);
    return XXH3_64bits_withSeed(text, strlen(text), (uint64_t)space.st_ino);
}

void boot_id(char ret_id[BOOT_ID_ROOM])
{
    char text[TEXT_MAX] = "";

    (void)read_text("/proc/sys/kernel/random/boot_id", text);
    snprintf(ret_id, BOOT_ID_ROOM, "%.*s", (int)strcspn(text, "\n"), text);
}
