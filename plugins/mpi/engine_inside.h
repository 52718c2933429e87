/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of an engine's files. */
#pragma once

#include "engine.h"

extern const tutti_transport_ops mpi_transport_ops;     /* transport.c */
extern const tutti_collectives_ops mpi_collectives_ops; /* collectives.c */
extern const tutti_bootstrap_ops mpi_bootstrap_ops;     /* bootstrap.c */

/* The name of the library for messages: "Open MPI". */
const char *mpi_library(void);
