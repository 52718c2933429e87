/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs that start ranks share: how many ranks, which MPI, the job with its guard. */
#pragma once

#include <stdbool.h>

#include "run/launcher.h"

/* Opens those standard streams that are closed: a rank would get our pipes in their place. Call it before anything
 * is opened. */
void job_open_streams(void);

/* A number of ranks, or "auto": one per usable CPU. `text` NULL: `ret_ranks` stays. False after
 * having said what is wrong. */
bool job_parse_ranks(const char *verb, const char *text, int *ret_ranks);

/* Sets options->mpi by options->backend and the environment. False after having said that the
 * backend needs the launcher of an MPI, and that there is none. */
bool job_find_mpi(const char *verb, struct launch_options *options);

/* Runs the job in the process that guard_run() makes; returns the exit code of the verb. */
int job_run(struct launch_options *options);
