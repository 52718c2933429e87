/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may differ between two calls, as the levels of a few factors; a row has one level of each.
 *
 * Levels that do not matter for a row's operation are LEVEL_NONE (a barrier has no dtype), so that
 * two rows that differ are two different calls. A pair of levels of two factors is possible when a
 * valid row has both; a covering array is a list of rows that has every possible pair.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

enum factor {
    FACTOR_OPERATION,
    FACTOR_DTYPE,
    FACTOR_OP,
    FACTOR_SIZE,
    FACTOR_MEMBERS, /* less 1 */
    FACTOR_ROOT,
    FACTOR_PLACE,
    FACTOR_WAY,
    FACTOR_ALIGN,
    FACTOR_ORDER,
    FACTOR_FORM,
    FACTORS
};

enum {
    OPERATION_ALL_REDUCE,
    OPERATION_ALL_REDUCE_INTO,
    OPERATION_BROADCAST,
    OPERATION_BARRIER,
    OPERATION_SEND_RECV, /* a ring of blocking calls */
    OPERATION_ISEND_IRECV,
    OPERATION_ANY_SOURCE, /* the root receives from all others */
    OPERATION_REDUCE,
    OPERATION_ALL_GATHER, /* this one and those below: `count` of each block */
    OPERATION_GATHER,
    OPERATION_SCATTER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_ALL_TO_ALL,
    OPERATION_MONITORED_BARRIER,
    OPERATIONS
};
/* Levels of FACTOR_OP: the built-in ones by their number, and those that are made at run time. */
enum {
    OP_PREMUL_ONE = 8, /* PREMUL_SUM with one factor for all elements, */
    OP_PREMUL_EACH,    /* or one for each */
    OP_COMMUTING,      /* the user's own */
    OP_NOT_COMMUTING,
    OPS
};
enum { DTYPES = 17, MEMBERS_MAX = 8 };
enum { ROOT_FIRST, ROOT_SECOND, ROOT_MIDDLE, ROOT_LAST, ROOTS };
enum { PLACE_SAME, PLACE_OTHER, PLACES };
enum { WAY_BLOCKING, WAY_ASYNC, WAY_BATCH /* a coalesced one */, WAYS };
enum { ORDER_ANY, ORDER_FIXED, ORDERS };
enum { FORM_EVEN, FORM_UNEVEN /* with counts, or a list of different tensors */, FORMS };
enum { LEVEL_NONE = 255 };

struct row {
    uint8_t level[FACTORS];
};

extern const tutti_dtype space_dtypes[DTYPES];
extern const char *const space_operations[OPERATIONS];

unsigned space_levels(enum factor factor);
/* Elements of the size's level, for elements of `element` bytes. */
uint64_t space_count(unsigned size_level, size_t element);
/* Whether the level is one that the full product of small sizes has: at most 64 elements. */
bool space_is_small(unsigned size_level);
int space_root(const struct row *row);
/* Bytes from a cache line's begin to the tensor. */
size_t space_offset(unsigned align_level, size_t element);

/* What the operations have in common. */
bool space_reduces(unsigned operation);
bool space_is_barrier(unsigned operation);
bool space_is_message(unsigned operation);
bool space_takes_blocks(unsigned operation); /* a block for every member is its input, */
bool space_gives_blocks(unsigned operation); /* or its output */
/* What OP_PREMUL_… and the user's own have in common. */
bool space_is_premul(unsigned op_level);
bool space_is_own(unsigned op_level);

/* A valid row of `members`, drawn from `state`. */
struct row space_random(uint64_t *state, int members);
/* All valid rows of `members`, with one special form at most; `small`: of small sizes, see space.c. Returns how many, and the array in
 * `ret_rows`, to be freed. */
size_t space_product(int members, bool small, struct row **ret_rows);

/* A covering array over the numbers of members whose bit (1 << members) is set. */
size_t space_cover(uint64_t seed, unsigned members_mask, struct row **ret_rows);

/* ---- what was covered ------------------------------------------------------------------------ */

struct coverage;

/* `small`: of small sizes alone. */
struct coverage *coverage_new(unsigned members_mask, bool small);
void coverage_add(struct coverage *coverage, const struct row *row);
/* Pairs of levels, and whole rows: how many were added, of how many that are possible. */
void coverage_pairs(const struct coverage *coverage, size_t *ret_covered, size_t *ret_possible);
void coverage_rows(const struct coverage *coverage, size_t *ret_covered, size_t *ret_possible);
void coverage_free(struct coverage *coverage);
