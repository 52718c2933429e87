/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX in this process. The plugin is compiled with UCX's headers and not linked with UCX: opening the
 * library changes the process, so the first endpoint opens it, under conditions that library.c states.
 */
#pragma once

#include <stdbool.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include "../common/caller.h"
#include "../common/loaded.h"
#include "functions.h"

#define UCX_MEMBER(function) __typeof__(function) *function;

/* library->ucp_init_version(...) and so on. */
struct ucx_library {
    void *handle;                 /* of dlopen() */
    char path[LOADED_PATH_BYTES]; /* of libucp.so.0 */
    char version[64];             /* "1.13.1" */
    unsigned major, minor, patch;
    UCX_VERSION_FUNCTIONS(UCX_MEMBER)
    UCX_FUNCTIONS(UCX_MEMBER)
    UCX_OPTIONAL_FUNCTIONS(UCX_MEMBER)
    UCX_DEVICE_FUNCTIONS(UCX_MEMBER)
    bool has_uct; /* all of the device functions are there */
};

/*
 * The UCX of this process, opened by the first call, never closed. PLUGIN: there is none, or it cannot be
 * opened; INVALID_ARGUMENT: the process has another than TUTTI_UCX says.
 */
tutti_status library_open(const struct caller *caller, const struct ucx_library **ret_library);
