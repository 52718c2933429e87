/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process's launcher and its MPI belong together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "caller.h"

/* Before MPI_Init. INVALID_ARGUMENT: it would end the process there, since it does not speak with the
 * launcher. */
tutti_status launched_for_this_mpi(const struct caller *c);

/* After it. INVALID_ARGUMENT: by the job's `size` the process is alone, but by its launcher's variables
 * one of several. */
tutti_status launched_not_alone(const struct caller *c, int size);

/* Whether all processes of the job are on this host, by the launcher's variables; false where they do not say. */
bool launched_on_one_host(void);

/* "process 1 of 4", by the launcher's variables; "one of them", where they do not say. */
void launched_place(char *ret_words, size_t size);
