/* SPDX-License-Identifier: Apache-2.0 */
/* An engine, as the plugin finds it. */
#include "engine_inside.h"
#include "job.h"

#ifdef OPEN_MPI
#define LIBRARY "Open MPI"
#else
#define LIBRARY "MPICH"
#endif

const struct mpi_engine tutti_mpi_engine = {.struct_size = sizeof(struct mpi_engine),
                                            .library = LIBRARY,
                                            .transport = &mpi_transport_ops,
                                            .collectives = &mpi_collectives_ops,
                                            .bootstrap = &mpi_bootstrap_ops,
                                            .threads = job_threads,
                                            .version = job_version,
                                            .leave = job_leave};
