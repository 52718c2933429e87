/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cgroup.h"

enum { CPUS_MAX = 1 << 16 };

/* A level 3 cache, and how many CPUs share it, as here where the kernel does not tell; how many CPUs are online. */
static struct {
    uint64_t bytes;
    int cpus;
    int online;
} cache = {32 << 20, 8, 1};

/* The number of CPUs in this thread's mask, 0: not known; and a hash of it. */
static int read_mask(uint64_t *ret_hash)
{
    /* The kernel refuses a mask shorter than its own, so ask with longer ones. */
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) {
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = CPU_ALLOC(cpus);
        int count = 0;

        if (!set)
            break;
        CPU_ZERO_S(bytes, set);
        if (sched_getaffinity(0, bytes, set) == 0) {
            count = CPU_COUNT_S(bytes, set);
            *ret_hash = XXH3_64bits(set, bytes);
        } else if (errno != EINVAL) {
            cpus = CPUS_MAX;
        }
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 0;
}

static int count_online(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (int)online : 1;
}

/* `cpus`, or what the quota leaves of them. */
static int within_quota(int cpus)
{
    struct cgroup_limits limits;

    cgroup_limits_read(&limits);
    if (limits.cpus > 0 && limits.cpus < cpus)
        cpus = limits.cpus < 1 ? 1 : (int)limits.cpus;
    return cpus;
}

uint64_t cpu_l2_bytes(void)
{
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* A line of what the kernel tells of the first CPU's level 3 cache. False: there is none, or it is hidden. */
static bool read_cache(const char *name, char *ret_line, int size)
{
    char path[96];

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index3/%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool is_there = fgets(ret_line, size, file) != NULL;
    fclose(file);
    return is_there;
}

int cpu_count_listed(const char *list)
{
    int count = 0, length;
    unsigned first, last;

    while (sscanf(list, "%u%n", &first, &length) == 1) {
        list += length;
        last = first;
        if (sscanf(list, "-%u%n", &last, &length) == 1)
            list += length;
        count += last >= first ? (int)(last - first + 1) : 1;
        if (*list++ != ',')
            break;
    }
    return count;
}

static void find_cache(void)
{
    char size[32], cpus[256];
    unsigned kib;
    int sharing;

    cache.online = count_online();
    if (!read_cache("size", size, sizeof size) || sscanf(size, "%uK", &kib) != 1 || !kib ||
        !read_cache("shared_cpu_list", cpus, sizeof cpus))
        return;
    sharing = cpu_count_listed(cpus);
    if (!sharing)
        return;
    cache.bytes = (uint64_t)kib << 10;
    cache.cpus = sharing;
}

static void look_at_cache(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_cache);
}

uint64_t cpu_cache_share(uint32_t processes)
{
    look_at_cache();
    const uint64_t caches = (uint64_t)((cache.online + cache.cpus - 1) / cache.cpus);
    const uint64_t part = cache.bytes * caches / (processes ? processes : 1);
    return part < cache.bytes ? part : cache.bytes;
}

uint64_t cpu_cache_share_of_running(uint32_t processes)
{
    look_at_cache();
    const uint32_t online = (uint32_t)cache.online;

    return cpu_cache_share(processes < online ? processes : online);
}

int cpu_affinity(void)
{
    uint64_t hash;
    const int count = read_mask(&hash);

    return count ? count : count_online();
}

int cpu_usable(void)
{
    return within_quota(cpu_affinity());
}

int cpu_usable_by_all(void)
{
    return within_quota(count_online());
}

uint64_t cpu_set_id(void)
{
    char boot[BOOT_ID_ROOM];
    uint64_t id = 0;
    const int cpus = read_mask(&id);

    boot_id(boot);
    if (!*boot || !cpus)
        return 0;
    if (cpu_usable() < cpus)
        id ^= cgroup_id();
    id = XXH3_64bits_withSeed(boot, strlen(boot), id);
    return id ? id : 1;
}

struct cpu_share cpu_share_here(void)
{
    return (struct cpu_share){.set = cpu_set_id(), .count = (uint32_t)cpu_usable()};
}

/* Whether a process before this one has the same. */
static bool is_counted(const struct cpu_share *shares, int index)
{
    for (int i = 0; shares[index].set && i < index; i++)
        if (shares[i].set == shares[index].set)
            return true;
    return false;
}

bool cpu_is_crowded(const struct cpu_share *shares, int processes)
{
    uint64_t cpus = 0;

    for (int i = 0; i < processes && cpus < (uint64_t)processes; i++)
        if (!is_counted(shares, i))
            cpus += shares[i].count;
    return cpus < (uint64_t)processes;
}
