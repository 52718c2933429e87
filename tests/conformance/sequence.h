/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of one start of ranks, in order and numbered from 0: a function of seed, members and
 * mode alone, so that every rank, and the test that counts what was covered, has the same ones
 * without asking. First come listed rows (the covering array, or a product), then random calls
 * without end.
 */
#pragma once

#include "conformance/space.h"

enum { BATCH = 8 }; /* calls between two waits for all that are in flight */

enum mode { MODE_PAIRS, MODE_SMALL, MODE_FULL };

enum values {
    VALUES_EXACT,  /* any order of reduction gives the same bits */
    VALUES_ROUGH,  /* floats that are rounded on the way */
    VALUES_SPECIAL /* NaN, infinities and zeros of both signs, for MIN and MAX */
};

/* Whether tensors lie on devices, too. */
enum devices {
    DEVICES_NONE,
    DEVICES_ANY,  /* each member's where it likes */
    DEVICES_ALIKE /* all of a call, or none */
};

struct sequence {
    uint64_t seed;
    int members;
    enum mode mode;
    struct row *rows;
    size_t count;
    bool reproducible;    /* every reduction takes the fixed order; false from sequence_open(), */
    enum devices devices; /* none; the same */
};

struct conformance_call {
    uint64_t number, key;
    uint64_t whole_key; /* as key, but the same for all blocks */
    struct row row;     /* FACTOR_SIZE is LEVEL_NONE when `count` is not in the list of sizes */
    unsigned operation;
    tutti_dtype dtype; /* TUTTI_U8 for a barrier */
    size_t element;    /* bytes */
    unsigned op_level;
    tutti_reduce_op op; /* SUM for PREMUL_SUM; -1: none, or the user's own */
    uint64_t count;     /* elements of the tensor, or, about, of a block */
    int members, root;
    bool ordered; /* the bits are those of the fixed order's tree */
    bool uneven;  /* as sequence_block() says */
    bool mixed;   /* members differ in local facts */
    enum devices devices;
    enum values values;
};

/* Where a tensor lies. */
enum memory { MEMORY_HOST, MEMORY_PINNED, MEMORY_MANAGED, MEMORY_DEVICE, MEMORIES };

/* What a member may choose for itself. */
struct local_facts {
    unsigned way; /* WAY_… */
    bool other_place;
    bool list;       /* blocks are given as a list of tensors, not as one */
    bool gaps;       /* there is something between blocks with counts, which are not in order */
    bool by_offset;  /* the tensor begins at its byte_offset */
    bool registered; /* it is in registered memory */
    size_t offset;
    enum memory in, out; /* where its tensors lie */
};

extern const char *const sequence_memories[MEMORIES];

/* `members_mask`: all numbers of members that share the covering array. */
void sequence_open(struct sequence *sequence, uint64_t seed, enum mode mode, int members,
                   unsigned members_mask);
void sequence_close(struct sequence *sequence);
struct conformance_call sequence_call(const struct sequence *sequence, uint64_t number);
/* Whether all tensors of the call are on devices, where those of a call are alike. */
bool sequence_is_on_devices(const struct conformance_call *call);
struct local_facts sequence_local(const struct conformance_call *call, int rank);
/* Elements of the block that `from` has for `to`; of the tensor where there are no blocks. */
uint64_t sequence_block(const struct conformance_call *call, int from, int to);
/* "#12 all_reduce 7 x f32 sum, 3 members, …" */
void sequence_words(const struct conformance_call *call, char *ret_words, size_t size);
