/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI this process uses. */
#pragma once

#include "engine.h"

/*
 * The engine of this process, chosen and opened by the first call and the same ever after. In this
 * order: TUTTI_MPI; the MPI that is loaded already; the MPI whose launcher started this process.
 * INVALID_ARGUMENT: these contradict each other, or nothing says which; PLUGIN: the engine or its MPI
 * is not installed.
 */
tutti_status choose_engine(const tutti_host *host, void *host_self,
                           const struct mpi_engine **ret_engine);

/* 1: the launcher of an MPI started this process. */
int32_t choose_is_launched(void);
