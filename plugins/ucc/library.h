/* SPDX-License-Identifier: Apache-2.0 */
/* UCC in this process: opened by the first call, never closed. */
#pragma once

#include "../common/caller.h"
#include "ucc_api.h"

#define UCC_MEMBER(result, name, parameters) result(*name) parameters;

/* library->context_create(...) and so on. */
struct ucc_library {
    void *handle;    /* of dlopen() */
    char path[4096]; /* of libucc.so.1 */
    unsigned major, minor, release;
    UCCI_FUNCTIONS(UCC_MEMBER)
    UCCI_OPTIONAL_FUNCTIONS(UCC_MEMBER) /* NULL: not there */
};

/* PLUGIN: there is none, it cannot be opened, or it has another interface. */
tutti_status library_open(const struct caller *caller, const struct ucc_library **ret_library);
