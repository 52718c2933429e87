/* SPDX-License-Identifier: Apache-2.0 */
/* An engine, as the plugin finds it. */
#include "engine_inside.h"
#include "job.h"

#include <string.h>

#if defined(OPEN_MPI)
const char *mpi_library(void)
{
    return "Open MPI";
}
#elif defined(MPICH_VERSION)
const char *mpi_library(void)
{
    return "MPICH";
}
#else
/* Behind the standard ABI it comes out when the library is asked. */
const char *mpi_library(void)
{
    static const char *const known[] = {"Open MPI", "MPICH"};
    char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    MPI_Get_library_version(words, &length);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strncmp(words, known[i], strlen(known[i])))
            return known[i];
    return "MPI";
}
#endif

const struct mpi_engine tutti_mpi_engine = {.struct_size = sizeof(struct mpi_engine),
                                            .transport = &mpi_transport_ops,
                                            .collectives = &mpi_collectives_ops,
                                            .bootstrap = &mpi_bootstrap_ops,
                                            .threads = job_threads,
                                            .version = job_version,
                                            .leave = job_leave};
