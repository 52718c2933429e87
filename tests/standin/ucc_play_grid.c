/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective with every type, operation and some sizes, roots and ways to give the buffers. Values are
 * small integers, so that each type holds each result, whatever the order of a sum.
 */
#include "ucc_play.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

struct shape {
    uint32_t kind;
    uint64_t datatype;
    uint32_t op;
    size_t count; /* elements of a block */
    uint32_t root;
    bool in_place;
};

/* ---- values --------------------------------------------------------------------------------- */

#define TYPES(X)                                                                                   \
    X(UCCI_INT8, int8_t)                                                                           \
    X(UCCI_INT16, int16_t)                                                                         \
    X(UCCI_INT32, int32_t)                                                                         \
    X(UCCI_INT64, int64_t)                                                                         \
    X(UCCI_UINT8, uint8_t)                                                                         \
    X(UCCI_UINT16, uint16_t)                                                                       \
    X(UCCI_UINT32, uint32_t)                                                                       \
    X(UCCI_UINT64, uint64_t)                                                                       \
    X(UCCI_FLOAT32, float)                                                                         \
    X(UCCI_FLOAT64, double)                                                                        \
    X(UCCI_FLOAT32_COMPLEX, float complex)                                                         \
    X(UCCI_FLOAT64_COMPLEX, double complex)

static size_t bytes_of(uint64_t datatype)
{
    switch (datatype) {
#define BYTES(number, type)                                                                        \
    case number:                                                                                   \
        return sizeof(type);
        TYPES(BYTES)
    default:
        return 2; /* bf16 and f16 */
    }
}

static void put(uint64_t datatype, void *buffer, size_t i, int value)
{
    const float wide = (float)value;
    uint32_t bits;

    switch (datatype) {
#define PUT(number, type)                                                                          \
    case number:                                                                                   \
        ((type *)buffer)[i] = (type)value;                                                         \
        return;
        TYPES(PUT)
    default:
        memcpy(&bits, &wide, sizeof bits);
        ((uint16_t *)buffer)[i] = (uint16_t)(bits >> 16);
    }
}

static int get(uint64_t datatype, const void *buffer, size_t i)
{
    uint32_t bits;
    float wide;

    switch (datatype) {
#define GET(number, type)                                                                          \
    case number:                                                                                   \
        return (int)((const type *)buffer)[i];
        TYPES(GET)
    default:
        bits = (uint32_t)((const uint16_t *)buffer)[i] << 16;
        memcpy(&wide, &bits, sizeof wide);
        return (int)wide;
    }
}

/* What member `rank` has in place `i` of what it gives. */
static int value_of(const struct shape *shape, uint32_t rank, size_t i)
{
    switch (shape->op) {
    case UCCI_PROD:
        return 1 + ((rank + i) % 3 == 0);
    case UCCI_SUM:
    case UCCI_MAX:
    case UCCI_MIN:
        return (int)((rank * 5 + i * 3) % 13);
    default:
        return (int)((rank * 7 + i * 5 + (rank & i)) % 16);
    }
}

static int two(uint32_t op, int a, int b)
{
    switch (op) {
    case UCCI_PROD:
        return a * b;
    case UCCI_MAX:
        return a > b ? a : b;
    case UCCI_MIN:
        return a < b ? a : b;
    case UCCI_LAND:
        return a && b;
    case UCCI_LOR:
        return a || b;
    case UCCI_LXOR:
        return !a != !b;
    case UCCI_BAND:
        return a & b;
    case UCCI_BOR:
        return a | b;
    case UCCI_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

static int reduced(const struct shape *shape, uint32_t size, size_t i)
{
    int value = value_of(shape, 0, i);

    for (uint32_t rank = 1; rank < size; rank++)
        value = two(shape->op, value, value_of(shape, rank, i));
    return value;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Of the uneven operations: how many elements `from` gives to `to`, and where its block lies, with gaps. */
static size_t uneven(const struct shape *shape, uint32_t from, uint32_t to)
{
    return shape->count + (from + 2 * to) % 3;
}

static uint64_t gap_before(const struct shape *shape, uint32_t block)
{
    return block * (shape->count + 4);
}

struct play {
    struct player *player;
    const struct shape *shape;
    ucci_coll_args args;
    size_t element, room; /* bytes of each buffer without its guards */
    uint8_t *src, *dst;
    uint64_t src_counts[PLAYERS_MAX], src_places[PLAYERS_MAX];
    uint64_t dst_counts[PLAYERS_MAX], dst_places[PLAYERS_MAX];
};

static uint8_t *guarded(size_t room)
{
    uint8_t *all = malloc(room + 2 * GUARD);

    if (!all)
        abort();
    memset(all, GUARD_BYTE, room + 2 * GUARD);
    return all + GUARD;
}

static void check_guards(struct play *p, const uint8_t *buffer)
{
    for (size_t i = 0; i < GUARD; i++)
        CHECK(p->player, buffer[i - GUARD] == GUARD_BYTE && buffer[p->room + i] == GUARD_BYTE,
              "bytes beside a buffer were written");
}

static void even_side(struct play *p, ucci_side *side, void *buffer, size_t count)
{
    side->even = (ucci_buffer){.buffer = buffer,
                               .count = count,
                               .datatype = p->shape->datatype,
                               .memory = UCCI_MEMORY_HOST};
}

static void uneven_side(struct play *p, ucci_side *side, void *buffer, uint64_t *counts,
                        uint64_t *places)
{
    side->uneven = (ucci_buffer_v){.buffer = buffer,
                                   .counts = counts,
                                   .displacements = places,
                                   .datatype = p->shape->datatype,
                                   .memory = UCCI_MEMORY_HOST};
}

static void fill(struct play *p, uint8_t *buffer, size_t at, size_t count, size_t first)
{
    for (size_t i = 0; i < count; i++)
        put(p->shape->datatype, buffer, at + i, value_of(p->shape, p->player->rank, first + i));
}

/* Block `at` of a buffer holds what `rank` gave from its place `first` on. */
static void expect_given(struct play *p, const uint8_t *buffer, size_t at, size_t count,
                         uint32_t rank, size_t first)
{
    for (size_t i = 0; i < count; i++) {
        const int is = get(p->shape->datatype, buffer, at + i);
        const int should = value_of(p->shape, rank, first + i);

        CHECK(p->player, is == should,
              "kind %#x type %d count %zu root %u%s: element %zu is %d, not %d", p->shape->kind,
              (int)(p->shape->datatype >> 3), p->shape->count, p->shape->root,
              p->shape->in_place ? " in place" : "", at + i, is, should);
    }
}

static void expect_reduced(struct play *p, const uint8_t *buffer, size_t at, size_t count,
                           size_t first)
{
    for (size_t i = 0; i < count; i++) {
        const int is = get(p->shape->datatype, buffer, at + i);
        const int should = reduced(p->shape, p->player->size, first + i);

        CHECK(p->player, is == should,
              "kind %#x type %d op %u count %zu root %u%s: element %zu is %d, not %d",
              p->shape->kind, (int)(p->shape->datatype >> 3), p->shape->op, p->shape->count,
              p->shape->root, p->shape->in_place ? " in place" : "", at + i, is, should);
    }
}

/* ---- one collective ------------------------------------------------------------------------- */

/* Whether this member gives its part by the buffer that takes the result. */
static bool gives_in_place(const struct play *p)
{
    const uint32_t rooted = UCCI_GATHER | UCCI_GATHERV | UCCI_REDUCE | UCCI_SCATTERV;

    return p->shape->in_place && (!(p->shape->kind & rooted) || p->player->rank == p->shape->root);
}

static void run(struct play *p)
{
    p->args.coll_type = p->shape->kind;
    p->args.op = p->shape->op;
    p->args.root = p->shape->root;
    p->args.mask = UCCI_ARGS_FIELD_FLAGS;
    p->args.flags = UCCI_FLAG_COUNT_64BIT | UCCI_FLAG_DISPLACEMENTS_64BIT |
                    (gives_in_place(p) ? UCCI_FLAG_IN_PLACE : 0);
    perform(p->player, p->player->world, &p->args);
}

static void play_reduction(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;
    const size_t count = p->shape->count;
    const bool scatters = p->shape->kind == UCCI_REDUCE_SCATTER;
    const bool gets = p->shape->kind != UCCI_REDUCE || me == p->shape->root;
    const size_t all = scatters ? n * count : count;

    fill(p, gives_in_place(p) ? p->dst : p->src, 0, all, 0);
    even_side(p, &p->args.src, p->src, all);
    even_side(p, &p->args.dst, p->dst, scatters && !p->shape->in_place ? count : all);
    run(p);
    if (!gets)
        return;
    if (scatters)
        expect_reduced(p, p->dst, p->shape->in_place ? me * count : 0, count, me * count);
    else
        expect_reduced(p, p->dst, 0, count, 0);
}

static void play_reduce_scatterv(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;
    size_t all = 0, mine = 0;

    for (uint32_t m = 0; m < n; m++) {
        p->dst_counts[m] = uneven(p->shape, m, 0);
        p->dst_places[m] = all;
        mine = m == me ? all : mine;
        all += p->dst_counts[m];
    }
    fill(p, p->shape->in_place ? p->dst : p->src, 0, all, 0);
    even_side(p, &p->args.src, p->src, all);
    uneven_side(p, &p->args.dst, p->dst, p->dst_counts, p->dst_places);
    run(p);
    expect_reduced(p, p->dst, p->shape->in_place ? mine : 0, p->dst_counts[me], mine);
}

static void play_gather(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;
    const size_t count = p->shape->count;

    fill(p, gives_in_place(p) ? p->dst : p->src, gives_in_place(p) ? me * count : 0, count, 0);
    even_side(p, &p->args.src, p->src, count);
    even_side(p, &p->args.dst, p->dst, n * count);
    run(p);
    for (uint32_t m = 0; m < n && (p->shape->kind == UCCI_ALLGATHER || me == p->shape->root); m++)
        expect_given(p, p->dst, m * count, count, m, 0);
}

static void play_gatherv(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;

    for (uint32_t m = 0; m < n; m++) {
        p->dst_counts[m] = uneven(p->shape, m, 0);
        p->dst_places[m] = gap_before(p->shape, m);
    }
    fill(p, gives_in_place(p) ? p->dst : p->src, gives_in_place(p) ? p->dst_places[me] : 0,
         p->dst_counts[me], 0);
    even_side(p, &p->args.src, p->src, p->dst_counts[me]);
    uneven_side(p, &p->args.dst, p->dst, p->dst_counts, p->dst_places);
    run(p);
    for (uint32_t m = 0; m < n && (p->shape->kind == UCCI_ALLGATHERV || me == p->shape->root); m++)
        expect_given(p, p->dst, p->dst_places[m], p->dst_counts[m], m, 0);
}

static void play_scatterv(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank, root = p->shape->root;

    for (uint32_t m = 0; m < n; m++) {
        p->src_counts[m] = uneven(p->shape, m, 0);
        p->src_places[m] = gap_before(p->shape, m);
        fill(p, p->src, p->src_places[m], p->src_counts[m], p->src_places[m]);
    }
    even_side(p, &p->args.dst, p->dst, p->src_counts[me]);
    if (me == root)
        uneven_side(p, &p->args.src, p->src, p->src_counts, p->src_places);
    run(p);
    expect_given(p, gives_in_place(p) ? p->src : p->dst, gives_in_place(p) ? p->src_places[me] : 0,
                 p->src_counts[me], root, p->src_places[me]);
}

static void play_alltoall(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;
    const size_t count = p->shape->count;

    fill(p, p->src, 0, n * count, 0);
    even_side(p, &p->args.src, p->src, n * count);
    even_side(p, &p->args.dst, p->dst, n * count);
    run(p);
    for (uint32_t m = 0; m < n; m++)
        expect_given(p, p->dst, m * count, count, m, me * count);
}

static void play_alltoallv(struct play *p)
{
    const uint32_t n = p->player->size, me = p->player->rank;

    for (uint32_t m = 0; m < n; m++) {
        p->src_counts[m] = uneven(p->shape, me, m);
        p->src_places[m] = gap_before(p->shape, m);
        p->dst_counts[m] = uneven(p->shape, m, me);
        p->dst_places[m] = gap_before(p->shape, n - 1 - m);
        fill(p, p->src, p->src_places[m], p->src_counts[m], p->src_places[m]);
    }
    uneven_side(p, &p->args.src, p->src, p->src_counts, p->src_places);
    uneven_side(p, &p->args.dst, p->dst, p->dst_counts, p->dst_places);
    run(p);
    for (uint32_t m = 0; m < n; m++)
        expect_given(p, p->dst, p->dst_places[m], p->dst_counts[m], m, gap_before(p->shape, me));
}

static void play_bcast(struct play *p)
{
    if (p->player->rank == p->shape->root)
        fill(p, p->src, 0, p->shape->count, 0);
    even_side(p, &p->args.src, p->src, p->shape->count);
    run(p);
    expect_given(p, p->src, 0, p->shape->count, p->shape->root, 0);
}

static void play_nothing(struct play *p)
{
    run(p);
}

static const struct {
    uint32_t kinds;
    void (*play)(struct play *play);
    bool reduces, has_root, in_place;
} plays[] = {
    {UCCI_ALLREDUCE | UCCI_REDUCE_SCATTER, play_reduction, true, false, true},
    {UCCI_REDUCE, play_reduction, true, true, true},
    {UCCI_REDUCE_SCATTERV, play_reduce_scatterv, true, false, true},
    {UCCI_ALLGATHER, play_gather, false, false, true},
    {UCCI_GATHER, play_gather, false, true, true},
    {UCCI_ALLGATHERV, play_gatherv, false, false, true},
    {UCCI_GATHERV, play_gatherv, false, true, true},
    {UCCI_SCATTERV, play_scatterv, false, true, true},
    {UCCI_ALLTOALL, play_alltoall, false, false, false},
    {UCCI_ALLTOALLV, play_alltoallv, false, false, false},
    {UCCI_BCAST, play_bcast, false, true, false},
    {UCCI_BARRIER, play_nothing, false, false, false},
    {UCCI_FANIN | UCCI_FANOUT, play_nothing, false, true, false},
};

static void play_one(struct player *player, size_t which, const struct shape *shape)
{
    struct play play = {.player = player, .shape = shape, .element = bytes_of(shape->datatype)};

    play.room = player->size * (shape->count + 4) * play.element;
    play.src = guarded(play.room);
    play.dst = guarded(play.room);
    plays[which].play(&play);
    check_guards(&play, play.src);
    check_guards(&play, play.dst);
    free(play.src - GUARD);
    free(play.dst - GUARD);
}

/* ---- the grid ------------------------------------------------------------------------------- */

static void play_shape(struct player *player, size_t which, struct shape shape)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        shape.kind = UINT32_C(1) << bit;
        if (!(shape.kind & plays[which].kinds))
            continue;
        const uint32_t roots = plays[which].has_root ? player->size : 1;

        for (uint32_t root = 0; root < roots; root += root + 1 < roots ? roots - 1 : 1)
            for (int in_place = 0; in_place <= plays[which].in_place; in_place++) {
                shape.root = root;
                shape.in_place = in_place;
                play_one(player, which, &shape);
            }
    }
}

static uint32_t last_op(uint64_t datatype)
{
    switch (datatype) {
    case UCCI_FLOAT32:
    case UCCI_FLOAT64:
    case UCCI_BFLOAT16:
        return UCCI_MIN;
    case UCCI_FLOAT32_COMPLEX:
    case UCCI_FLOAT64_COMPLEX:
        return UCCI_PROD;
    default:
        return UCCI_BXOR;
    }
}

void play_grid(struct player *player)
{
    static const uint64_t types[] = {UCCI_INT8,    UCCI_INT16,           UCCI_INT32,
                                     UCCI_INT64,   UCCI_UINT8,           UCCI_UINT16,
                                     UCCI_UINT32,  UCCI_UINT64,          UCCI_FLOAT32,
                                     UCCI_FLOAT64, UCCI_FLOAT32_COMPLEX, UCCI_FLOAT64_COMPLEX,
                                     UCCI_BFLOAT16};
    static const size_t sizes[] = {0, 1, 2, 7, 64, 1001, 5000, 20011, 300001};
    enum { TYPES_HERE = sizeof types / sizeof *types, SIZES = sizeof sizes / sizeof *sizes };

    for (size_t which = 0; which < sizeof plays / sizeof *plays; which++) {
        for (size_t s = 0; s < (player->size > 4 ? SIZES - 1 : SIZES);
             s++) /* 8 times as many take longer */
            play_shape(player, which,
                       (struct shape){.datatype = UCCI_FLOAT32, .op = UCCI_SUM, .count = sizes[s]});
        for (size_t t = 0; t < TYPES_HERE; t++)
            for (uint32_t op = 0; op <= (plays[which].reduces ? last_op(types[t]) : 0); op++)
                play_shape(player, which,
                           (struct shape){.datatype = types[t], .op = op, .count = 33});
    }
}
