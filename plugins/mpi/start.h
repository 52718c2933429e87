/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_Init, with a deadline. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "caller.h"

/* Initialises MPI unless somebody has, on a thread that is left behind when the time is over: TIMEOUT
 * then, and a later call goes on waiting for it. `deadline_ns` of 0 is none. */
tutti_status start_mpi(const struct caller *c, int64_t deadline_ns);

/* Whether it was us, and the level of threads that MPI granted then. */
bool start_was_ours(int *ret_level);
