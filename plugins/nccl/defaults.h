/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL reads of the environment once a process, where the user has not set it. */
#pragma once

#include <stdbool.h>

#include "../common/caller.h"

/*
 * The environment has NCCL_SOCKET_IFNAME, the interface of `bind_address` ("": not known), and NCCL_DEBUG and
 * NCCL_DEBUG_FILE for lines.h, until defaults_take_back(). False: NCCL has read them before, and nothing is to be taken
 * back.
 */
bool defaults_lend(const struct caller *caller, const char *bind_address);
/* Once after each that returned true. `has_made`: a communicator, which is ready. */
void defaults_take_back(bool has_made);
