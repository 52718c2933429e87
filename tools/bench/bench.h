/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti bench`: what a call takes on this machine.
 *
 * The command starts itself as the ranks of a job (bench.c), unless it is a rank of one already. Each rank
 * then measures the cells, one operation and size after the other (bench_cell.c); rank 0 prints them.
 *
 * A sample is the mean time of a few calls in a row, on the rank on which it is largest. Calls of more than
 * SAMPLE_US are samples of their own. All ranks have the same samples, so they stop at the same one.
 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

enum bench_memory { MEMORY_ORDINARY, MEMORY_ALLOCATED, MEMORY_REGISTERED };
extern const char *const bench_memories[]; /* ends with NULL */

/* What is to be measured, and how: of the command line, the same on all ranks. */
struct bench_plan {
    const struct bench_operation **operations; /* [operation_count] */
    int operation_count;
    uint64_t *bytes; /* [size_count] */
    int size_count;
    tutti_dtype dtype;
    tutti_reduce_op op;
    enum bench_memory memory;
    bool async, hot;
    double seconds; /* that a cell may take */
};

/* One rank. */
struct bench_rank {
    tutti_group *world;
    int rank, size;
    const struct bench_plan *plan;
    void *in, *out;            /* room for a block of the largest size for each rank */
    uint64_t room;             /* of each of the two */
    tutti_memory *memories[2]; /* NULL: ordinary */
    struct bench_link *link;   /* NULL: not known */
};

/* A call to measure. */
struct bench_call {
    const struct bench_operation *operation;
    uint64_t count; /* elements of the vector, or of each block */
    uint64_t bytes; /* the same */
    const struct bench_plan *plan;
    void *in, *out;
};

/* What was measured. Times in microseconds. */
struct bench_cell {
    const struct bench_operation *operation;
    uint64_t bytes, count;
    bool touched; /* inputs are written before each call, which is not timed */
    int calls;    /* in a sample */
    int samples;
    bool settled; /* the median is known to 2 % with a confidence of 95 % */
    double min, p25, p50, p75, p95, p99;
    double low, high;              /* of the median's confidence interval */
    double algorithm_gbs, bus_gbs; /* 0: nothing is moved */
    double cpu_percent;            /* of a rank's time, mean of the ranks */
    double link_ns;                /* of a flag between ranks 0 and 1; 0: not known */
    const char *link;              /* "near", "far", "both", or "-" */
    uint64_t wrong;                /* elements, on all ranks */
    char served[96];               /* "shm all_reduce_inline" */
};

/* ---- bench_calls.c: the operations ----------------------------------------------------------- */

struct bench_operation {
    const char *name, *what;
    bool rooted; /* a barrier comes before each call, untimed */
    bool takes_blocks, gives_blocks, reduces;
    bool in_place;   /* the result is where the input was */
    bool is_message; /* between ranks 0 and 1 */
    bool halves;     /* a call goes there and back, and one way is what counts */
    tutti_status (*run)(struct bench_rank *rank, const struct bench_call *call);
    /* Bytes that count for the bandwidth of the algorithm, and the factor from there to the links'. */
    double (*moved)(double bytes, int ranks), (*factor)(int ranks);
};

extern const struct bench_operation bench_operations[]; /* ends with a row without a name */

/* ---- bench_data.c: what tensors hold, and whether the result is right ------------------------- */

/* NULL: the type's values are not known here. */
bool bench_data_knows(tutti_dtype dtype);
void bench_data_fill(const struct bench_rank *rank, const struct bench_call *call);
/* How many elements of this rank's result are wrong; says on stderr which is the first. */
uint64_t bench_data_wrong(const struct bench_rank *rank, const struct bench_call *call);

/* ---- bench_cell.c ---------------------------------------------------------------------------- */

tutti_status bench_measure(struct bench_rank *rank, const struct bench_operation *operation,
                           uint64_t bytes, struct bench_cell *ret_cell);

/* ---- bench_link.c: the time of a flag between ranks 0 and 1 ------------------------------------ */

/* NULL where they share no memory. Collective. */
struct bench_link *bench_link_open(tutti_group *world, int rank, int size);
/* Nanoseconds; of ranks 0 and 1. */
double bench_link_probe(struct bench_link *link);
void bench_link_close(struct bench_link *link);

/* ---- bench_report.c: rank 0's output ----------------------------------------------------------- */

enum bench_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct bench_report {
    enum bench_format format;
    bool progress;     /* cells are named on stderr while they are measured */
    GArray *cells;     /* struct bench_cell */
    JsonNode *against; /* NULL: nothing to compare with */
    const char *against_path;
    const struct bench_rank *rank;
    uint64_t wrong; /* elements of all cells */
};

void bench_report_begin(struct bench_report *report);
void bench_report_progress(const struct bench_report *report,
                           const struct bench_operation *operation, uint64_t bytes);
void bench_report_cell(struct bench_report *report, const struct bench_cell *cell);
void bench_report_end(struct bench_report *report);

/* "touched", "async hot", … */
const char *bench_mode(const struct bench_plan *plan, const struct bench_cell *cell);

/* ---- bench_file.c ------------------------------------------------------------------------------ */

/* The document of --json and --save. */
JsonNode *bench_report_json(const struct bench_report *report);
/* Writes it whole or not at all; false, after having said why. */
bool bench_report_save(const struct bench_report *report, const char *path);
/* A document of --save; NULL, after having said what is wrong. */
JsonNode *bench_report_load(const char *path);

/* ---- bench_plot.c ------------------------------------------------------------------------------ */

/* Draws the medians by size, as SVG. False, after having said why. */
bool bench_plot(const struct bench_report *report, const char *path);
