/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: all members of a group in one process and one thread, each with its own view of
 * layout, mapped memory and messages, advanced in a random order.
 *
 * Messages are as unkind as they may be: a send completes only after its receive was posted, and
 * both some tests later; a start is refused now and then. Every schedule gets pauses at random
 * steps, so that members interleave inside of what one run_advance() would do at once. A world in
 * which no member can move is a deadlock: the program prints which member waits for which, and
 * fails.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tensor.h>

#include "algorithm/algorithm.h"
#include "dispatch/dispatch.h"
#include "schedule/runner.h"

enum { SIM_MEMBERS_MAX = 64 };

struct sim_op {
    enum operation operation;
    tutti_dtype dtype;
    tutti_reduce_op op;
    int root;
    uint64_t count; /* as in struct call_fields: of each block, where every member has one */
    bool in_place;  /* ignored where there are blocks */
    bool random;    /* any finite floats: the members must agree on the bits */
    bool uneven;    /* blocks of sim_block() elements, at the places of those of `count` */
    const struct algorithm *algorithm; /* NULL: as planned */
    int elsewhere; /* registered: the member whose tensors are not in such memory, from 1; 0: none */
};

/* What waits for its other side, in order. One of the two queues is always empty. */
struct sim_channel {
    struct sim_message *first[2], *last[2];
};

struct sim_world;

struct sim_member {
    struct sim_world *world;
    int rank;
    struct layout layout;
    struct thresholds thresholds;
    struct group_facts facts;
    struct mapped mapped;
    struct schedule schedule;
    struct schedule ordinary; /* of a registered algorithm: what is taken where not all are such */
    struct mapped_references references;
    struct run run;

    struct sim_op op;
    struct announce announce;
    struct inline_call call;
    struct kernels kernels;
    const struct algorithm *algorithm;
    uint64_t sequence, signature;
    uint64_t checked;    /* sequence of the last call whose result was looked at */
    uint64_t sent_bytes; /* of the last schedule */
    bool running, posted;
    void *in, *out;
    uint64_t capacity;
    struct call_sizes sizes; /* of uneven blocks, in the two tables */
    uint64_t in_sizes[SIM_MEMBERS_MAX], out_sizes[SIM_MEMBERS_MAX];
    int weight; /* how often it gets its turn */
};

struct sim_world {
    int size;
    uint64_t random;
    uint64_t activity; /* grows whenever something moved */
    bool mapped;
    void *memory;          /* the areas */
    uint64_t memory_bytes; /* 0: the memory is another world's */
    unsigned char
        *bases[2][SIM_MEMBERS_MAX]; /* the members' inputs and outputs, as registered memory */
    uint64_t bytes[2][SIM_MEMBERS_MAX];
    struct sim_member members[SIM_MEMBERS_MAX];
    struct sim_channel *channels;  /* [from * size + to] */
    struct sim_message *transfers; /* matched, not yet complete */
};

uint64_t sim_random(struct sim_world *world);
static inline uint64_t sim_below(struct sim_world *world, uint64_t limit)
{
    return sim_random(world) % limit;
}

/* `host_of[size]`: the host of each member. Exits when there is no memory, as everything here. */
void sim_open(struct sim_world *world, int size, const int *host_of, bool mapped, uint64_t seed);
/* A second view of the same members and memory, to be closed first. */
void sim_share(struct sim_world *world, const struct sim_world *with, uint64_t seed);
void sim_close(struct sim_world *world);

/* Elements of the block that `from` has for `to`: 0 to op->count. Where every member has one for, or of, all
 * others, the other side does not count. */
uint64_t sim_block(const struct sim_op *op, int from, int to);

/* Gives member its buffers, filled for `op` as number `number`, and makes the call. */
void sim_call(struct sim_member *member, const struct sim_op *op, uint64_t number);
/* TUTTI_OK: done; TUTTI_ERR_NOT_READY; or the error. */
tutti_status sim_advance(struct sim_member *member);
/* Exits with a message unless the member has the right result of `op`. */
void sim_check(struct sim_world *world, int rank, const struct sim_op *op, uint64_t number);

/* Exits with a message unless all members have the same bits. */
void sim_check_bits(struct sim_world *world);

/* The wire of a run whose user is the member. A send to nobody is a pause: it is refused or
 * completes late. */
extern const struct wire sim_wire;
enum { SIM_NOBODY = -1 };

/* Lets what is on the way go on. */
void sim_progress(struct sim_world *world);

/* One operation of all members from call to checked result. */
void sim_all(struct sim_world *world, const struct sim_op *op, uint64_t number);

/* Prints which member waits for which, and exits. */
void sim_deadlock(struct sim_world *world);
/* Gives every running member a turn. When none of them could move, it is a
 * deadlock. A member that is done afterwards is no longer running. */
void sim_must_move(struct sim_world *world);
/* A random member that is running, by weight. */
struct sim_member *sim_pick(struct sim_world *world);

void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
