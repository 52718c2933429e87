/* SPDX-License-Identifier: Apache-2.0 */
/* The options, and the variables of launchers, for the descriptor and for the tables of the core, which has them without opening the
 * plugin. <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define MPI_OPTIONS(X)                                                                             \
    X("mpi", "TUTTI_MPI", "openmpi | mpich | abi", "", TUTTI_OPTION_COMPARED, NULL,                \
      "The MPI of the backend mpi; `abi`: an MPI with the standard ABI. Not set: the MPI that is " \
      "loaded already, else the one whose launcher started the process; `tutti run` takes the "    \
      "first that is installed. Set-id programs ignore it.")                                       \
    X("mpi", "TUTTI_MPI_BLOCKING", "0 | 1", "0", TUTTI_OPTION_COMPARED, NULL,                      \
      "`1`: the backend mpi calls MPI's blocking collectives. They are faster for short vectors, " \
      "but no deadline, abort or death of a rank ends them, and messages in flight do not "        \
      "advance meanwhile. Set-id programs ignore it.")

/* X(plugin, variable, launcher) */
#define MPI_LAUNCHERS(X)                                                                           \
    X("mpi", "OMPI_COMM_WORLD_SIZE", "Open MPI's launcher")                                        \
    X("mpi", "PMIX_RANK", "a launcher with PMIx")                                                  \
    X("mpi", "PMI_RANK", "a launcher with PMI")
