/* SPDX-License-Identifier: Apache-2.0 */
/* The place of libmpi_abi.so.1, the library of an MPI with the standard's own ABI. */
#pragma once

#include <stdbool.h>

#include "caller.h"

#define ABI_LIBRARY "libmpi_abi.so.1"

/*
 * Opens it for good, so that the engine that needs it gets this one: by its name, as the dynamic linker
 * finds it; beside the launcher that started this process; beside the first mpiexec in PATH that has one.
 * PLUGIN: there is none, or it cannot be opened.
 */
tutti_status abi_library_open(const struct caller *c);

/* Whether there is one; if so, it is open from now on. */
bool abi_library_is_there(void);

/* Whether the launcher that started this process has one beside it: it is an MPI's of that ABI. */
bool abi_library_is_launchers(void);
