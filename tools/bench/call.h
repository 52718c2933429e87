/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call as `tutti bench` makes it again and again: the operation, its tensors, and which blocks
 * they consist of.
 *
 * `bytes` are those of the vector, of the message, or of each block where there is one for every
 * rank. The blocks of a "_v" form grow with their number; `bytes` is their mean.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

enum bench_memory { BENCH_MEMORY_ORDINARY, BENCH_MEMORY_ALLOCATED, BENCH_MEMORY_REGISTERED };

/* Memory of a rank with the tensor that lies in it. */
struct bench_side {
    void *mapping;
    size_t mapped;        /* bytes of the mapping; 0: none */
    tutti_memory *memory; /* NULL: ordinary */
    char *data;
    int64_t count; /* elements */
    tutti_tensor tensor;
};

struct bench_call {
    tutti_group *world;
    int rank, size;
    const struct bench_operation *operation;
    tutti_dtype dtype;
    tutti_reduce_op op;
    enum bench_memory memory;
    bool async;
    int root;      /* of a message the rank that talks with rank 0 */
    int64_t count; /* elements in `bytes` */
    int window;    /* messages in flight at once */

    struct bench_side in, out; /* an operation in place has `in` alone */
    int64_t *counts; /* elements of block i; of all_to_all_v: between ranks a and b, i = a + b */
    int64_t *in_counts, *out_counts; /* as a "_v" form takes them */
    tutti_work **works;              /* [2 * window], for messages */
};

/* Makes memory and tensors for call->count elements. Collective. False: there is no memory; call_close()
 * anyway. */
bool call_open(struct bench_call *call);
void call_close(struct bench_call *call);

/* Bytes of memory that call_open() takes at most on call->rank for blocks of `bytes`. */
double call_memory(const struct bench_call *call, uint64_t bytes);

/* Whether this rank takes part; in messages only two do. */
bool call_takes_part(const struct bench_call *call);

/* Makes the call, and waits for it if it is asynchronous. */
tutti_status call_run(struct bench_call *call);

/* Makes a call, and tells who served it, as the recorder says; NULL: it does not say. */
tutti_status call_served(struct bench_call *call, const char **ret_provider,
                         const char **ret_algorithm);

/* The element at which block `block` begins in the input, or the output, of `rank`. */
int64_t call_in_offset(const struct bench_call *call, int rank, int block);
int64_t call_out_offset(const struct bench_call *call, int rank, int block);
/* The elements of the block that rank `from` has for rank `to`. */
int64_t call_block_count(const struct bench_call *call, int from, int to);
