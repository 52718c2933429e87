/* SPDX-License-Identifier: Apache-2.0 */
/* Which collectives NCCL does, and how they are started. */
#pragma once

#include <stdbool.h>

#include <tutti/plugin_engine.h>

#include "library.h"

/* Whether every NCCL, on every GPU, does it with the meaning that tutti has. */
bool operations_serve(const tutti_collective *what);
/* Puts it on its stream. Once more: ncclInProgress is no failure. */
ncclResult_t operations_start(const struct nccl_library *nccl, ncclComm_t comm, int rank,
                              const tutti_collective *what);
/* The same for several, by one launch. */
ncclResult_t operations_start_all(const struct nccl_library *nccl, ncclComm_t comm, int rank,
                                  const tutti_collective *const *what, uint32_t count);
