/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/cgroup.h"

enum { CPUS_MAX = 1 << 16 };

int cpu_affinity(void)
{
    /* The kernel refuses a mask shorter than its own, so ask with longer ones. */
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        int count = 0;

        if (!set)
            break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(cpus), set) == 0)
            count = CPU_COUNT_S(CPU_ALLOC_SIZE(cpus), set);
        else if (errno != EINVAL)
            cpus = CPUS_MAX;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }

    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (int)online : 1;
}

int cpu_usable(void)
{
    struct cgroup_limits limits;
    int cpus = cpu_affinity();

    cgroup_limits_read(&limits);
    if (limits.cpus > 0 && limits.cpus < cpus)
        cpus = limits.cpus < 1 ? 1 : (int)limits.cpus;
    return cpus;
}
