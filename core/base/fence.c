/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static int membarrier_call(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

bool fence_register(void)
{
    static _Atomic int known; /* 0 not asked, 1 usable, 2 not */
    int state = atomic_load(&known);

    if (!state) {
        bool usable = membarrier_call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
                      membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
        state = usable ? 1 : 2;
        atomic_store(&known, state);
    }
    return state == 1;
}

void fence_heavy(void)
{
    fence_full();
    if (fence_register())
        membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
