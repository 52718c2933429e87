/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All communication of this program; the only file pair that knows tutti. Every call is collective
 * and blocks. A call that fails leaves tutti's message in `why`.
 */
#ifndef TRAIN_DIGITS_COMM_H
#define TRAIN_DIGITS_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "failure.h"

/* The bytes that this rank has moved. */
struct comm_traffic {
    uint64_t sent;   /* bytes written to connections */
    uint64_t mapped; /* bytes written to memory that other ranks map */
};

struct comm {
    struct tutti_group *world;
    uint32_t rank, size;
    const char *backend;
    double seconds;                       /* spent in comm_sum_gradients() */
    uint64_t gradient_calls;              /* of comm_sum_gradients() */
    struct comm_traffic gradient_traffic; /* during those calls; nothing that an engine moved */
    struct comm_tally *tally;
    struct gpu *gpu; /* where gradients are summed; NULL: in host memory */
};

/** Meets the other ranks that the launcher or the environment names. After success comm_close() is
 * due, whatever happened since. `device`: the GPU on which gradients lie when they are summed, as
 * gpu_open() takes it; NULL: none. */
bool comm_open(struct comm *comm, const char *device, struct failure *why);
/** Leaves in good order; false when the group had failed or cannot be left. */
bool comm_close(struct comm *comm, struct failure *why);

/** Replaces `values` by their sum over all ranks; timed, copies to a GPU and back included. */
bool comm_sum_gradients(struct comm *comm, float *values, size_t count, struct failure *why);
bool comm_sum(struct comm *comm, double *values, size_t count, struct failure *why);
/** Checks on each rank whether its `values` are those of rank 0. */
bool comm_same_as_rank_0(struct comm *comm, const uint64_t *values, size_t count, bool *ret_same,
                         struct failure *why);
bool comm_barrier(struct comm *comm, struct failure *why);

bool comm_traffic(const struct comm *comm, struct comm_traffic *ret_traffic, struct failure *why);
/** The backend whose engine itself sums `count` gradients, so that nobody counts their bytes; NULL: none. */
bool comm_engine_of_gradients(struct comm *comm, size_t count, const char **ret_engine,
                              struct failure *why);

/** Prints which provider and algorithm carried how many calls of each kind, from the recorder. */
bool comm_print_carriers(struct comm *comm, FILE *to, struct failure *why);

#endif
