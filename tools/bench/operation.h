/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that `tutti bench` measures: the collectives with the names of `tutti explain`, and
 * three patterns of messages.
 *
 * Bandwidths are those of nccl-tests (PERFORMANCE.md there). The algorithm bandwidth is the size
 * divided by the time, where the size is that of the vector or of all blocks together. The bus
 * bandwidth is corrected by what the operation has to move over the busiest link, so that it can be
 * compared with the hardware's, whatever the number of ranks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bench/call.h"

/* What a call has to move over the busiest link, in parts of its size, with n ranks. */
enum bench_bus {
    BENCH_BUS_NOTHING,
    BENCH_BUS_ONCE,         /* 1 */
    BENCH_BUS_OTHERS,       /* (n - 1) / n */
    BENCH_BUS_TWICE_OTHERS, /* 2 (n - 1) / n */
    BENCH_BUS_HALF          /* 1 / 2: each way has half of it */
};

/* Where a run of elements of the output comes from. */
struct bench_origin {
    int64_t at, count; /* in the output */
    int rank;          /* whose input it is; -1: that of all ranks, reduced */
    int64_t first;     /* where it is in the input */
};

struct bench_operation {
    const char *name;
    tutti_status (*run)(struct bench_call *call, tutti_work **work);
    /* The origin of block `block` of this rank's output; false: nothing comes from there. NULL: the
     * operation moves nothing. */
    bool (*origin)(const struct bench_call *call, int block, struct bench_origin *ret_origin);
    uint32_t traits; /* TUTTI_OPERATION_… */
    bool blocks_in;  /* the input has a block for each rank */
    bool blocks_out; /* the output has */
    bool in_place;   /* the output is the input */
    bool is_message; /* between rank 0 and call->root */
    bool uneven;     /* a "_v" form */
    bool windowed;   /* many messages in a call */
    int messages; /* that follow one another in a call, and share its time; 0: it has no messages */
    enum bench_bus bus;
};

/* NULL: no operation is called so. */
const struct bench_operation *operation_find(const char *name);

/* The names with `between` in between, g_free(). */
char *operation_names(const char *between);

/* Calls fn for each operation in turn. */
void operation_each(void (*fn)(const struct bench_operation *operation, void *user), void *user);

/* Whether calls are timed one by one, with a barrier before each that is not timed: otherwise a rank
 * that only sends would be calls ahead of the receivers, and the time would be that of a rate. */
bool operation_is_paced(const struct bench_operation *operation);

/* How many operations the time of one call is divided by. */
int operation_parts(const struct bench_call *call);

/* The size that the algorithm bandwidth counts, and the bus bandwidth's part of it. */
double operation_size(const struct bench_call *call);
double operation_bus_factor(const struct bench_operation *operation, int ranks);
