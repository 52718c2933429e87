/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL in this process: opened by the first call, never closed. */
#pragma once

#include "../common/caller.h"
#include "nccl_api.h"

#define NCCL_MEMBER(result, name, parameters) result(*name) parameters;

/* library->ncclAllReduce(...) and so on. */
struct nccl_library {
    char path[4096];
    int code; /* as ncclGetVersion() says it: 22809 */
    unsigned major, minor, patch;
    NCCL_FUNCTIONS(NCCL_MEMBER)
    NCCL_MEMORY_FUNCTIONS(NCCL_MEMBER) /* ncclMemAlloc is NULL where one of them is not there */
};

/* PLUGIN: there is none, it cannot be opened, or it is too old. */
tutti_status library_open(const struct caller *caller, const struct nccl_library **ret_library);
