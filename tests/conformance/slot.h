/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a sequence on one rank, from making it to looking at what came of it. */
#ifndef TUTTI_TESTS_SLOT_H
#define TUTTI_TESTS_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conformance/sequence.h"
#include "conformance/served.h"

enum {
    PARTS_MAX = MEMBERS_MAX, /* tensors, and calls, of one case on one rank */
    RECORDS = BATCH * PARTS_MAX,
    TIMEOUT_MS = 60000,
    FAILURES_MAX = 8
};

struct buffer {
    unsigned char *memory, *data;
    size_t bytes, room;
    int64_t shape;
    tutti_tensor tensor;
};

/* One call in flight, or done. */
struct part {
    bool is_collective;
    uint64_t sequence; /* as the recorder counts */
    tutti_work *work;
    int32_t source;
};

struct slot {
    struct conformance_call call;
    struct local_facts facts;
    struct buffer in, out[PARTS_MAX]; /* `in` may be absent */
    int outs;
    struct part parts[PARTS_MAX + 1];
    int part_count;
    int64_t digest;
};

struct run {
    tutti_group *world;
    int rank, size;
    struct sequence sequence;
    struct served_table table;
    const char *where, *hosts, *again;
    int64_t until_ns;
    uint64_t collectives, messages; /* calls made, as the recorder counts them */
    uint64_t state;                 /* of this rank's own choices */
    int failures;
};

extern struct run run;

/* Makes the call; fails and ends the case when it is refused. */
void slot_begin(struct slot *slot, uint64_t number);
/* Its result, its records and the memory around it, which is freed. */
void slot_end(struct slot *slot, const tutti_record *records, uint32_t count);

/* A check that failed; after too many the case ends. */
void slot_fail(const struct slot *slot, const char *why);
/* A group that has failed has nothing more to say: ends the case. */
void slot_must(const struct slot *slot, tutti_status status, const char *what);

/* Frees the buffer, whose surroundings must be untouched. Nothing for one that was never made. */
void buffer_check_and_free(struct buffer *buffer, const struct slot *slot);
/* Where block `block` of a buffer lies. */
unsigned char *slot_block(const struct slot *slot, const struct buffer *buffer, int block);

#endif
