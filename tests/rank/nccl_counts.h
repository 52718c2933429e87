/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in for NCCL has counted in this process; a real NCCL has no such counters. */
#pragma once

#include <dlfcn.h>
#include <string.h>

/* -1: it is a real NCCL. */
static inline int nccl_count(const char *name)
{
    int (*count)(void) = NULL;
    void *function = dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), name);

    memcpy(&count, &function, sizeof count);
    return count ? count() : -1;
}

/* Operations that were put on streams. */
static inline int nccl_launches(void)
{
    return nccl_count("standin_nccl_launches");
}

/* Groups of calls that were, a call outside of a group among them. */
static inline int nccl_groups(void)
{
    return nccl_count("standin_nccl_groups");
}
