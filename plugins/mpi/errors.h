/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of collectives where MPI tells them to a handler of the program's. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

/* The program has initialised MPI: whether errors of our collectives go to its handler of
 * MPI_COMM_WORLD, so that errors_test() must be asked. */
bool errors_are_the_programs(void);

/* MPI_Test() that returns an error, whatever handler MPI_COMM_WORLD has. */
int errors_test(MPI_Request *request, int *ret_done);
