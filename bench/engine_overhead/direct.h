/* SPDX-License-Identifier: Apache-2.0 */
/* An engine as a program calls it without tutti: direct_mpi.c, direct_gloo.cc, direct_ucx.c,
 * direct_ucc.c, direct_nccl.c. */
#pragma once

#include <stddef.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sums in place; floats; each returns when this member is done. An engine without messages has no send and recv,
 * one without collectives no all_reduce and broadcast. */
struct direct {
    const char *form; /* "MPI_Iallreduce and MPI_Test" */
    void (*all_reduce)(float *data, size_t count);
    void (*broadcast)(float *data, size_t count, int root);
    void (*send)(const float *data, size_t count, int to);
    void (*recv)(float *data, size_t count, int from);
};

/* Where an engine takes tensors that are not in host memory. Its operations return when they are on the stream. */
struct direct_place {
    tutti_device device;
    void *stream;
    void *(*allocate)(size_t bytes); /* zeros; ends the program when there is no room */
    void (*release)(void *memory);
    void (*finish)(void); /* waits for all that is on the stream */
};

/* NULL: host memory. direct_open() may set it. */
extern const struct direct_place *direct_place;

/* TUTTI_BACKEND's name of the engine. */
extern const char direct_backend[];
/* The form that tutti's plugin takes too comes first; a NULL form ends them. They have a communicator or
 * context of their own, between the members of `world`. Ends the program when there is none. */
const struct direct *direct_open(tutti_group *world);
void direct_close(void);

#ifdef __cplusplus
}
#endif
