/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an MPI engine gives to the plugin that opens it. The plugin itself (mpi.c, choose.c) includes
 * no mpi.h and links no MPI; an engine is the rest, compiled for one family: handles, constants and
 * the layout of MPI_Status are the family's own, so the same source serves them all.
 */
#pragma once

#include <tutti/plugin_engine.h>

/* The one symbol that an engine exports. */
#define MPI_ENGINE_SYMBOL "tutti_mpi_engine"

struct mpi_engine {
    uint32_t struct_size; /* the two are built together; another size is another build's */
    const tutti_transport_ops *transport;
    const tutti_collectives_ops *collectives; /* but `serves` and `engine` */
    const tutti_bootstrap_ops *bootstrap;     /* but `detect` */
    uint32_t (*threads)(void);                /* TUTTI_THREADS_…, once something was opened */
    void (*version)(tutti_engine_version *ret_version);
    void (*leave)(int32_t clean);
};

TUTTI_API extern const struct mpi_engine tutti_mpi_engine;
