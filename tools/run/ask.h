/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the processes of a rank for a dump, which is SIGUSR2, without ending those that would not
 * know it: at its default the signal ends a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Sends SIGUSR2 to the rank's process; when it has no handler for it (a shell that runs the program),
 * to those that it has started and that have. False: there is none.
 */
bool ask_for_dump(pid_t rank);
