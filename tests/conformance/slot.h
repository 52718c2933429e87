/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a sequence on one rank, from making it to looking at what came of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conformance/sequence.h"
#include "conformance/served.h"

enum {
    PARTS_MAX = MEMBERS_MAX, /* tensors, and calls, of one case on one rank */
    RECORDS = BATCH * PARTS_MAX,
    TIMEOUT_MS = 60000,
    FAILURES_MAX = 8,
    STREAMS = 4
};

/* A vector is one block. Between blocks, and around them, is what nobody may write. What lies on a device has its
 * elements in pinned memory, too, before and after the call (slot_device.c). */
struct buffer {
    unsigned char *memory, *data;
    unsigned char *on_device; /* where the call has the memory; NULL: `memory` itself */
    enum memory kind;
    bool registered, is_there; /* the latter: on the device */
    size_t bytes, room;
    int64_t shape;
    tutti_tensor tensor;
    int blocks;
    int64_t counts[MEMBERS_MAX], offsets[MEMBERS_MAX], gaps[MEMBERS_MAX]; /* elements */
};

/* One call in flight, or done. */
struct part {
    bool is_collective, is_receive;
    uint64_t sequence; /* as the recorder counts */
    tutti_work *work;
    int32_t source;
};

struct slot {
    struct conformance_call call;
    struct local_facts facts;
    struct buffer in, out[PARTS_MAX]; /* `in` may be absent */
    int outs;
    tutti_options options;
    void *stream; /* of tensors that are not in host memory; NULL: the legacy one */
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
    bool batch_open;                /* calls go into a coalesced batch */
    tutti_work *batches[BATCH];
    int batch_count;
    tutti_reduce_op own[2]; /* OP_COMMUTING, OP_NOT_COMMUTING */
    void *streams[STREAMS]; /* of this rank's device; the first is the legacy one */
    struct {
        void *private; /* what was registered; NULL: it was allocated */
        tutti_memory *memory;
        size_t used; /* the first bytes */
        int buffers; /* of these */
    } registered;
    int failures;
};

extern struct run run;

/* Makes the call; fails and ends the case when it is refused. Calls in a batch that follow each other
 * are in the same one. */
void slot_begin(struct slot *slot, uint64_t number);
/* Ends the batch that is open, if one is, after the calls up to `slot`. */
void slot_end_batch(const struct slot *slot);
/* Its result, its records and the memory around it, which is freed. */
void slot_end(struct slot *slot, const tutti_record *records, uint32_t count);

/* Whether its blocks are given as a list of tensors. */
bool slot_is_list(const struct slot *slot);

/* A check that failed; after too many the case ends. */
void slot_fail(const struct slot *slot, const char *why);
/* A group that has failed has nothing more to say: ends the case. */
void slot_must(const struct slot *slot, tutti_status status, const char *what);

/* Whether such a call works in registered memory, by the members' local facts. */
enum served_registered slot_registered(const struct slot *slot);

/* ---- slot_memory.c --------------------------------------------------------------------------- */

/* Registered memory for the tensors, on some ranks allocated and on some the program's own. */
void buffers_open(void);
void buffers_close(void);

/* A vector, as the block that `from` has for `to`. */
void buffer_make(struct buffer *buffer, const struct slot *slot, int from, int to);
/* Of the blocks that this rank has for the others, or that those have for it. */
void buffer_make_blocks(struct buffer *buffer, const struct slot *slot, bool is_input);
/* Zeros into all that may be written. */
void buffer_clear(struct buffer *buffer, const struct slot *slot);
/* Frees the buffer, whose surroundings must be untouched. Nothing for one that was never made. */
void buffer_check_and_free(struct buffer *buffer, const struct slot *slot);
/* Where a block lies, and a tensor of it. */
unsigned char *buffer_block(const struct buffer *buffer, const struct slot *slot, int block);
tutti_tensor buffer_block_tensor(struct buffer *buffer, const struct slot *slot, int block);

/* ---- slot_device.c --------------------------------------------------------------------------- */

/* The device of this rank, and its streams. The name of the device, "cuda:1". */
const char *devices_open(void);
/* Memory of the buffer's kind, and what a call is told about it. */
void buffer_allocate(struct buffer *buffer);
void buffer_free(struct buffer *buffer);
/* The same place as the call has it, and the device of the buffer's tensors. */
void *buffer_address(const struct buffer *buffer, unsigned char *at);
tutti_device buffer_device(const struct buffer *buffer);

/* Whether a tensor of the call is ordered by a stream. */
bool slot_has_stream(const struct slot *slot);
/* Puts the copies of what was filled in onto the slot's stream, before the call. */
void slot_upload(struct slot *slot);
/* Lets a stream wait for the work, and waits for that stream. Now and then, where tensors are on the device. */
void slot_wait_on_stream(const struct slot *slot, struct part *part);
/* Copies back what the call, which is complete, left on the device. */
void slot_download(struct slot *slot);
/* A factor on the device, for some calls. */
void slot_place_factor(const struct slot *slot, tutti_tensor *factor);
void slot_free_factor(const tutti_tensor *factor);

/* The blocks of a buffer as a list of tensors. */
struct block_list {
    tutti_tensor tensors[MEMBERS_MAX];
    const tutti_tensor *list[MEMBERS_MAX];
};
const tutti_tensor *const *buffer_list(struct buffer *buffer, const struct slot *slot,
                                       struct block_list *blocks);
/* What calls with counts take: NULL where one block is behind the other. */
const int64_t *buffer_offsets(const struct buffer *buffer, const struct slot *slot);
