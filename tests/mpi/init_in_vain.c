/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has nothing of MPI but tutti's plugin, under mpirun alone, of whose processes one never
 * starts MPI: `init_in_vain SECONDS` says what became of tutti_init() and stays for so long, as others
 * may be ended with the first process that leaves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

enum { GIVES_UP_MS = 2500 };

int main(int argc, char **argv)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;

    options.backend = "mpi";
    options.timeout_ms = GIVES_UP_MS;
    tutti_status status = tutti_init(&options, &world);
    printf("%s: %s\n", tutti_status_name(status), tutti_last_error());
    fflush(stdout);
    nanosleep(&(struct timespec){.tv_sec = argc > 1 ? atoi(argv[1]) : 0}, NULL);
    exit(0);
}
