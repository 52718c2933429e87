/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The space of calls. The covering array is made greedily: for the first pair that is still
 * missing, the best of a few random rows that have it. That needs about a third more rows than the
 * largest product of two factors, and rows are cheap beside starting ranks.
 *
 * Sizes are those at which something may go wrong: none, one, around registers and cache lines,
 * and on both sides of every number of bytes at which an algorithm is left for another.
 */
#include "conformance/space.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"

const tutti_dtype space_dtypes[DTYPES] = {
#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
};

const char *const space_operations[OPERATIONS] = {
    "all_reduce",  "all_reduce_into", "broadcast",  "barrier",          "send/recv",
    "isend/irecv", "any source",      "reduce",     "all_gather",       "gather",
    "scatter",     "reduce_scatter",  "all_to_all", "monitored_barrier"};

static const uint64_t small_counts[] = {0,  1,  2,  3,   7,    8,    11,   12,
                                        13, 63, 64, 127, 1023, 1024, 1025, 4096};
static const uint64_t bounds[] = {4096, 16384, 32768, 65536, 131072, 262144, 307200};

enum {
    COUNTS = sizeof small_counts / sizeof small_counts[0],
    BOUNDS = sizeof bounds / sizeof bounds[0],
    SIZE_HUGE = COUNTS + 2 * BOUNDS, /* 4 MiB, sums of f32 and bf16 alone */
    SIZES,
    SMALL_COUNT = 64,
    TRIES = 24 /* rows of which the best is taken */
};

enum { ALIGN_LINE, ALIGN_ELEMENT, ALIGN_1, ALIGN_8, ALIGN_36, ALIGN_63, ALIGNS };

static const unsigned levels[FACTORS] = {OPERATIONS, DTYPES, OPS,    SIZES,  MEMBERS_MAX, ROOTS,
                                         PLACES,     WAYS,   ALIGNS, ORDERS, FORMS};

unsigned space_levels(enum factor factor)
{
    return levels[factor];
}

uint64_t space_count(unsigned size_level, size_t element)
{
    if (size_level < COUNTS)
        return small_counts[size_level];
    if (size_level == SIZE_HUGE)
        return (UINT64_C(4) << 20) / element;
    const unsigned bound = size_level - COUNTS;

    return bounds[bound / 2] / element + bound % 2;
}

bool space_is_small(unsigned size_level)
{
    return size_level == LEVEL_NONE ||
           (size_level < COUNTS && small_counts[size_level] <= SMALL_COUNT);
}

static int root_of(unsigned level, int members)
{
    const int roots[ROOTS] = {0, 1, members / 2, members - 1};

    return roots[level];
}

int space_root(const struct row *row)
{
    return row->level[FACTOR_ROOT] == LEVEL_NONE
               ? -1
               : root_of(row->level[FACTOR_ROOT], row->level[FACTOR_MEMBERS] + 1);
}

size_t space_offset(unsigned align_level, size_t element)
{
    const size_t offsets[ALIGNS] = {0, element, 1, 8, 36, 63};

    return align_level == LEVEL_NONE ? 0 : offsets[align_level];
}

/* ---- what is valid --------------------------------------------------------------------------- */

static bool is_all_reduce(unsigned operation)
{
    return operation <= OPERATION_ALL_REDUCE_INTO;
}

bool space_is_message(unsigned operation)
{
    return operation >= OPERATION_SEND_RECV && operation <= OPERATION_ANY_SOURCE;
}

bool space_reduces(unsigned operation)
{
    return is_all_reduce(operation) || operation == OPERATION_REDUCE ||
           operation == OPERATION_REDUCE_SCATTER;
}

bool space_is_barrier(unsigned operation)
{
    return operation == OPERATION_BARRIER || operation == OPERATION_MONITORED_BARRIER;
}

bool space_takes_blocks(unsigned operation)
{
    return operation == OPERATION_SCATTER || operation == OPERATION_REDUCE_SCATTER ||
           operation == OPERATION_ALL_TO_ALL;
}

bool space_gives_blocks(unsigned operation)
{
    return operation == OPERATION_GATHER || operation == OPERATION_ALL_GATHER ||
           operation == OPERATION_ALL_TO_ALL;
}

bool space_is_premul(unsigned op_level)
{
    return op_level == OP_PREMUL_ONE || op_level == OP_PREMUL_EACH;
}

bool space_is_own(unsigned op_level)
{
    return op_level == OP_COMMUTING || op_level == OP_NOT_COMMUTING;
}

static bool takes(unsigned op_level, tutti_dtype dtype)
{
    const tutti_reduce_op op =
        space_is_premul(op_level) ? TUTTI_PREMUL_SUM : (tutti_reduce_op)op_level;

    return space_is_own(op_level) || tutti_reduce_op_meaning(op, dtype);
}

/* Whether the factor says anything about the operation. */
static bool applies(enum factor factor, unsigned operation)
{
    switch (factor) {
    case FACTOR_OP:
    case FACTOR_ORDER:
        return space_reduces(operation);
    case FACTOR_FORM:
        return space_takes_blocks(operation) || space_gives_blocks(operation);
    case FACTOR_PLACE:
        return operation == OPERATION_ALL_REDUCE_INTO || operation == OPERATION_REDUCE ||
               space_takes_blocks(operation) || space_gives_blocks(operation);
    case FACTOR_ROOT:
        return operation == OPERATION_BROADCAST || operation == OPERATION_REDUCE ||
               operation == OPERATION_GATHER || operation == OPERATION_SCATTER ||
               space_is_message(operation);
    case FACTOR_DTYPE:
    case FACTOR_SIZE:
    case FACTOR_ALIGN:
        return !space_is_barrier(operation);
    default:
        return true;
    }
}

/* Levels that are the same rank as a lower level are no levels of their own. */
static bool root_is_new(unsigned level, int members)
{
    for (unsigned lower = 0; lower < level; lower++)
        if (root_of(lower, members) == root_of(level, members))
            return false;
    return root_of(level, members) < members;
}

static bool is_valid(const struct row *row)
{
    const uint8_t *l = row->level;
    const unsigned operation = l[FACTOR_OPERATION];
    const int members = l[FACTOR_MEMBERS] + 1;

    if (space_is_message(operation) && members == 1)
        return false;
    if (applies(FACTOR_ROOT, operation) && !root_is_new(l[FACTOR_ROOT], members))
        return false;
    if ((operation == OPERATION_SEND_RECV && l[FACTOR_WAY] == WAY_ASYNC) ||
        (operation == OPERATION_ISEND_IRECV && l[FACTOR_WAY] == WAY_BLOCKING))
        return false;
    if (space_reduces(operation) && !takes(l[FACTOR_OP], space_dtypes[l[FACTOR_DTYPE]]))
        return false;
    if (l[FACTOR_SIZE] != SIZE_HUGE)
        return true;
    return is_all_reduce(operation) && l[FACTOR_OP] == TUTTI_SUM &&
           (space_dtypes[l[FACTOR_DTYPE]] == TUTTI_F32 ||
            space_dtypes[l[FACTOR_DTYPE]] == TUTTI_BF16);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Fills what `fixed` leaves open (LEVEL_NONE). False: the row is not valid. */
static bool draw(uint64_t *state, const struct row *fixed, struct row *ret_row)
{
    struct row row = *fixed;

    for (int f = 0; f < FACTORS; f++) {
        const unsigned operation = row.level[FACTOR_OPERATION];

        if (f != FACTOR_OPERATION && !applies((enum factor)f, operation)) {
            if (row.level[f] != LEVEL_NONE)
                return false;
        } else if (row.level[f] == LEVEL_NONE) {
            row.level[f] = (uint8_t)random_below(state, levels[f]);
        }
    }
    *ret_row = row;
    return is_valid(&row);
}

static struct row open_row(void)
{
    struct row row;

    memset(&row, LEVEL_NONE, sizeof row);
    return row;
}

struct row space_random(uint64_t *state, int members)
{
    struct row fixed = open_row(), row;

    fixed.level[FACTOR_MEMBERS] = (uint8_t)(members - 1);
    while (!draw(state, &fixed, &row))
        ;
    return row;
}

/*
 * Levels that are valid in the same rows stand for one another: all sizes but the largest, all
 * places, alignments, orders and forms. The first is the one that represents them.
 */
static unsigned class_end(enum factor factor, unsigned level)
{
    switch (factor) {
    case FACTOR_SIZE:
        return level < SIZE_HUGE ? SIZE_HUGE : SIZES;
    case FACTOR_PLACE:
    case FACTOR_ALIGN:
    case FACTOR_ORDER:
    case FACTOR_FORM:
        return levels[factor];
    default:
        return level + 1;
    }
}

typedef void (*row_fn)(void *user, const struct row *row);

/* `all`: every level, else one of each class. */
static void each_row(struct row *row, int factor, bool all, row_fn fn, void *user)
{
    if (factor == FACTORS) {
        if (is_valid(row))
            fn(user, row);
        return;
    }
    if (factor == FACTOR_MEMBERS) {
        each_row(row, factor + 1, all, fn, user);
        return;
    }
    if (factor != FACTOR_OPERATION && !applies((enum factor)factor, row->level[FACTOR_OPERATION])) {
        row->level[factor] = LEVEL_NONE;
        each_row(row, factor + 1, all, fn, user);
        return;
    }
    for (unsigned level = 0; level < levels[factor];
         level = all ? level + 1 : class_end((enum factor)factor, level)) {
        row->level[factor] = (uint8_t)level;
        each_row(row, factor + 1, all, fn, user);
    }
}

static void each_row_of(int members, bool all, row_fn fn, void *user)
{
    struct row row = open_row();

    row.level[FACTOR_MEMBERS] = (uint8_t)(members - 1);
    each_row(&row, 0, all, fn, user);
}

struct row_list {
    struct row *rows;
    size_t count, room;
    bool small;
};

static void list_add(struct row_list *list, const struct row *row)
{
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->rows = realloc(list->rows, list->room * sizeof *list->rows);
        if (!list->rows)
            abort();
    }
    list->rows[list->count++] = *row;
}

/* Ways of saying a call, beside dtype, op and size, that are not the plain one. */
static int special_forms(const uint8_t *l)
{
    return (l[FACTOR_WAY] == WAY_BATCH) + (l[FACTOR_ORDER] == ORDER_FIXED) +
           (l[FACTOR_FORM] == FORM_UNEVEN) +
           (l[FACTOR_OP] != LEVEL_NONE && l[FACTOR_OP] >= OP_PREMUL_ONE);
}

/* Special forms come one at a time into a product, in place and aligned. */
static bool is_in_product(const struct row *row)
{
    const uint8_t *l = row->level;

    return !special_forms(l) || (special_forms(l) == 1 && l[FACTOR_PLACE] != PLACE_OTHER &&
                                 (l[FACTOR_ALIGN] == LEVEL_NONE || l[FACTOR_ALIGN] == ALIGN_LINE));
}

/*
 * The product of small sizes leaves out what tells nothing new: where nothing is reduced, one dtype
 * of each size is enough, and all_reduce has shown every op; of the alignments, those of whole
 * elements, of a byte and of a line's last byte are; of special forms, those that block are.
 */
static bool is_in_small_product(const struct row *row)
{
    const uint8_t *l = row->level;
    const unsigned align = l[FACTOR_ALIGN];

    if (!space_is_small(l[FACTOR_SIZE]) || align == ALIGN_ELEMENT || align == ALIGN_8 ||
        align == ALIGN_36)
        return false;
    if (!is_in_product(row) ||
        (special_forms(l) &&
         (l[FACTOR_WAY] == WAY_ASYNC || l[FACTOR_OPERATION] == OPERATION_ALL_REDUCE_INTO)))
        return false;
    if (l[FACTOR_WAY] == WAY_BATCH && l[FACTOR_OP] != LEVEL_NONE && l[FACTOR_OP] != TUTTI_SUM)
        return false;
    if (is_all_reduce(l[FACTOR_OPERATION]) || l[FACTOR_DTYPE] == LEVEL_NONE)
        return true;
    if (space_reduces(l[FACTOR_OPERATION]) && l[FACTOR_OP] != TUTTI_SUM)
        return false;
    for (unsigned lower = 0; lower < l[FACTOR_DTYPE]; lower++)
        if (tutti_dtype_size(space_dtypes[lower]) ==
            tutti_dtype_size(space_dtypes[l[FACTOR_DTYPE]]))
            return false;
    return true;
}

static void add_to_product(void *user, const struct row *row)
{
    struct row_list *list = user;

    if (list->small ? is_in_small_product(row) : is_in_product(row))
        list_add(list, row);
}

size_t space_product(int members, bool small, struct row **ret_rows)
{
    struct row_list list = {.small = small};

    each_row_of(members, true, add_to_product, &list);
    *ret_rows = list.rows;
    return list.count;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

enum { LEVELS_MAX = 32, ROW_BITS = 1 << 29 };

typedef bool pair_table[FACTORS][FACTORS][LEVELS_MAX][LEVELS_MAX]; /* first factor < second */

struct coverage {
    pair_table possible, covered;
    bool small;
    size_t rows_possible, rows_covered;
    uint8_t rows[ROW_BITS / 8];
};

/* Marks the row's pairs, or not when `dry`; returns how many were not marked before. */
static size_t mark(pair_table table, const struct row *row, bool dry)
{
    size_t fresh = 0;

    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            const unsigned la = row->level[a], lb = row->level[b];

            if (la == LEVEL_NONE || lb == LEVEL_NONE || table[a][b][la][lb])
                continue;
            fresh++;
            if (!dry)
                table[a][b][la][lb] = true;
        }
    return fresh;
}

/* The pairs of all rows for which this one stands, and how many they are. */
static size_t mark_classes(pair_table table, const struct row *row)
{
    unsigned end[FACTORS];
    size_t rows = 1;

    for (int f = 0; f < FACTORS; f++) {
        end[f] = row->level[f] == LEVEL_NONE ? 0 : class_end((enum factor)f, row->level[f]);
        rows *= end[f] ? end[f] - row->level[f] : 1;
    }
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            for (unsigned la = row->level[a]; la < end[a]; la++)
                for (unsigned lb = row->level[b]; lb < end[b]; lb++)
                    table[a][b][la][lb] = true;
    return rows;
}

static void count_possible(void *user, const struct row *row)
{
    struct coverage *coverage = user;

    if (!coverage->small) {
        coverage->rows_possible += mark_classes(coverage->possible, row);
    } else if (is_in_small_product(row)) {
        mark(coverage->possible, row, false);
        coverage->rows_possible++;
    }
}

struct coverage *coverage_new(unsigned members_mask, bool small)
{
    struct coverage *coverage = calloc(1, sizeof *coverage);

    if (!coverage)
        abort();
    coverage->small = small;
    for (int members = 1; members <= MEMBERS_MAX; members++)
        if (members_mask & 1U << members)
            each_row_of(members, small, count_possible, coverage);
    return coverage;
}

void coverage_add(struct coverage *coverage, const struct row *row)
{
    size_t at = 0;

    mark(coverage->covered, row, false);
    for (int f = 0; f < FACTORS; f++)
        at = at * levels[f] + (row->level[f] == LEVEL_NONE ? 0 : row->level[f]);
    if (at >= ROW_BITS)
        abort();
    if (!(coverage->rows[at / 8] & 1 << at % 8))
        coverage->rows_covered++;
    coverage->rows[at / 8] |= (uint8_t)(1 << at % 8);
}

static size_t count_pairs(pair_table table)
{
    const bool *cell = (const bool *)table;
    size_t count = 0;

    for (size_t i = 0; i < sizeof(pair_table) / sizeof *cell; i++)
        count += cell[i];
    return count;
}

void coverage_pairs(const struct coverage *coverage, size_t *ret_covered, size_t *ret_possible)
{
    struct coverage *c = (struct coverage *)(uintptr_t)coverage;

    *ret_covered = count_pairs(c->covered);
    *ret_possible = count_pairs(c->possible);
}

void coverage_rows(const struct coverage *coverage, size_t *ret_covered, size_t *ret_possible)
{
    *ret_covered = coverage->rows_covered;
    *ret_possible = coverage->rows_possible;
}

void coverage_free(struct coverage *coverage)
{
    free(coverage);
}

/* The best of a few rows that have this pair. */
static struct row best_with(uint64_t *state, struct coverage *coverage, unsigned members_mask,
                            const struct row *pair)
{
    struct row best = *pair, row;
    size_t best_fresh = 0;

    for (int tries = 0; tries < TRIES;) {
        if (!draw(state, pair, &row) || !(members_mask & 2U << row.level[FACTOR_MEMBERS]))
            continue;
        tries++;
        size_t fresh = mark(coverage->covered, &row, true);
        if (fresh > best_fresh) {
            best_fresh = fresh;
            best = row;
        }
    }
    return best;
}

size_t space_cover(uint64_t seed, unsigned members_mask, struct row **ret_rows)
{
    struct coverage *coverage = coverage_new(members_mask, false);
    struct row_list list = {0};
    uint64_t state = seed;

    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            for (unsigned la = 0; la < levels[a]; la++)
                for (unsigned lb = 0; lb < levels[b]; lb++) {
                    struct row pair = open_row();

                    if (!coverage->possible[a][b][la][lb] || coverage->covered[a][b][la][lb])
                        continue;
                    pair.level[a] = (uint8_t)la;
                    pair.level[b] = (uint8_t)lb;
                    pair = best_with(&state, coverage, members_mask, &pair);
                    mark(coverage->covered, &pair, false);
                    list_add(&list, &pair);
                }
    coverage_free(coverage);
    *ret_rows = list.rows;
    return list.count;
}
