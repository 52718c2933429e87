/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations with a block for every member, in their three forms: what tests/conformance does
 * not vary, which is how the blocks lie.
 */
#include <string.h>

#include "harness/rank.h"

enum { MEMBERS_MAX = 32, BLOCK_MAX = 3000, ROOM = MEMBERS_MAX * (BLOCK_MAX + 8) };

static int32_t input[ROOM], output[ROOM];

/* What `from` has for `to` as element i. */
static int32_t value(int from, int to, int64_t i)
{
    return (int32_t)(from * 1000003 + to * 10007 + i);
}

/* Blocks of different sizes, some of none, with a gap behind each. */
struct uneven {
    int64_t counts[MEMBERS_MAX], offsets[MEMBERS_MAX], shapes[MEMBERS_MAX], total;
    tutti_tensor tensors[MEMBERS_MAX];
    const tutti_tensor *list[MEMBERS_MAX];
};

static int64_t uneven_count(int from, int to, int64_t most)
{
    return (from * 5 + to * 3) % 4 == 1 ? 0 : (from * 131 + to * 37) % most + 1;
}

/* `count(i)` elements at a place of their own for each member i, in `memory`. */
static void uneven_make(struct uneven *u, int32_t *memory, int size, const int64_t *counts)
{
    u->total = 0;
    for (int i = 0; i < size; i++) {
        u->counts[i] = counts[i];
        u->offsets[i] = u->total;
        u->total += counts[i] + 3;
        u->tensors[i] =
            tutti_tensor_1d(memory + u->offsets[i], TUTTI_I32, &u->shapes[i], counts[i]);
        u->list[i] = &u->tensors[i];
    }
}

static void clear(void)
{
    memset(output, 0xa5, sizeof output);
}

/* Elements [offset, offset + count) of the output are what `from` had for `to`. */
static void check_block(int64_t offset, int64_t count, int from, int to)
{
    for (int64_t i = 0; i < count; i++)
        if (output[offset + i] != value(from, to, i)) {
            check_eq(output[offset + i], value(from, to, i));
            return;
        }
}

static void check_gap(const struct uneven *u, int i)
{
    check_eq((uint32_t)output[u->offsets[i] + u->counts[i]], 0xa5a5a5a5u);
}

static tutti_tensor vector_of(int32_t *memory, int64_t *shape, int64_t count)
{
    return tutti_tensor_1d(memory, TUTTI_I32, shape, count);
}

static void fill(int32_t *at, int64_t count, int from, int to)
{
    for (int64_t i = 0; i < count; i++)
        at[i] = value(from, to, i);
}

/* ---- gathers ---------------------------------------------------------------------------------- */

static void gathers_of(tutti_group *world, int rank, int size, int root, int64_t most)
{
    int64_t counts[MEMBERS_MAX] = {0}, shape, out_shape;
    struct uneven outs;
    tutti_work *work;

    for (int i = 0; i < size; i++)
        counts[i] = uneven_count(i, 0, most);
    uneven_make(&outs, output, size, counts);
    fill(input, counts[rank], rank, 0);
    tutti_tensor in = vector_of(input, &shape, counts[rank]);
    tutti_tensor out = vector_of(output, &out_shape, outs.total);

    for (int form = 0; form < 2; form++) {
        clear();
        require_ok(
            form ? tutti_all_gather_list(world, &in, outs.list, NULL, NULL)
                 : tutti_all_gather_v(world, &in, &out, outs.counts, outs.offsets, NULL, NULL));
        for (int i = 0; i < size; i++) {
            check_block(outs.offsets[i], counts[i], i, 0);
            check_gap(&outs, i);
        }
    }
    clear();
    require_ok(tutti_gather_v(world, &in, rank == root ? &out : NULL, outs.counts, outs.offsets,
                              root, NULL, &work));
    require_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    for (int i = 0; i < size; i++) {
        if (rank == root)
            check_block(outs.offsets[i], counts[i], i, 0);
        check_gap(&outs, i);
    }
}

/* The plain form on some members meets a list of equal tensors on the others. */
static void forms_of_one_size(tutti_group *world, int rank, int size, int root, int64_t count)
{
    int64_t counts[MEMBERS_MAX] = {0}, shape, out_shape;
    struct uneven outs;

    for (int i = 0; i < size; i++)
        counts[i] = count;
    uneven_make(&outs, output, size, counts);
    fill(input, count, rank, 0);
    tutti_tensor in = vector_of(input, &shape, count);
    tutti_tensor out = vector_of(output, &out_shape, count * size);
    const bool list = rank % 2;

    clear();
    require_ok(list ? tutti_all_gather_list(world, &in, outs.list, NULL, NULL)
                    : tutti_all_gather(world, &in, &out, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_block(list ? outs.offsets[i] : i * count, count, i, 0);
    clear();
    require_ok(list ? tutti_gather_list(world, &in, outs.list, root, NULL, NULL)
                    : tutti_gather(world, &in, &out, root, NULL, NULL));
    for (int i = 0; i < size && rank == root; i++)
        check_block(list ? outs.offsets[i] : i * count, count, i, 0);

    /* In place: my block of the output is my input. */
    clear();
    fill(output + rank * count, count, rank, 0);
    in = vector_of(output + rank * count, &shape, count);
    require_ok(tutti_all_gather(world, &in, &out, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_block(i * count, count, i, 0);
    clear();
    fill(output + rank * count, count, rank, 0);
    require_ok(tutti_gather(world, &in, &out, root, NULL, NULL));
    for (int i = 0; i < size && rank == root; i++)
        check_block(i * count, count, i, 0);
}

RANK_CASE(gathers_take_every_form)
{
    tutti_group *world = rank_init(NULL);

    for (int root = 0; root < size; root++) {
        gathers_of(world, rank, size, root, 7);
        gathers_of(world, rank, size, root, BLOCK_MAX);
        forms_of_one_size(world, rank, size, root, 0);
        forms_of_one_size(world, rank, size, root, 5);
        forms_of_one_size(world, rank, size, root, BLOCK_MAX);
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- scatters --------------------------------------------------------------------------------- */

static void scatters_of(tutti_group *world, int rank, int size, int root, int64_t most)
{
    int64_t counts[MEMBERS_MAX] = {0}, shape, in_shape;
    struct uneven ins;

    for (int i = 0; i < size; i++)
        counts[i] = uneven_count(0, i, most);
    uneven_make(&ins, input, size, counts);
    for (int i = 0; i < size; i++)
        fill(input + ins.offsets[i], counts[i], rank, i);
    tutti_tensor in = vector_of(input, &in_shape, ins.total);
    tutti_tensor out = vector_of(output, &shape, counts[rank]);

    clear();
    require_ok(tutti_scatter_v(world, rank == root ? &in : NULL, ins.counts, ins.offsets, &out,
                               root, NULL, NULL));
    check_block(0, counts[rank], root, rank);
    check_eq((uint32_t)output[counts[rank]], 0xa5a5a5a5u);

    /* The same blocks summed over the members. */
    for (int form = 0; form < 2; form++) {
        clear();
        require_ok(form ? tutti_reduce_scatter_list(world, ins.list, &out, TUTTI_SUM, NULL, NULL)
                        : tutti_reduce_scatter_v(world, &in, ins.counts, ins.offsets, &out,
                                                 TUTTI_SUM, NULL, NULL));
        for (int64_t i = 0; i < counts[rank]; i++) {
            int32_t sum = 0;

            for (int from = 0; from < size; from++)
                sum += value(from, rank, i);
            require(output[i] == sum);
        }
    }
}

/* In place: my block of the input is my output. */
static void scatters_in_place(tutti_group *world, int rank, int size, int root, int64_t count)
{
    int64_t shape, in_shape;
    tutti_tensor in = vector_of(output, &in_shape, count * size);
    tutti_tensor out = vector_of(output + rank * count, &shape, count);

    for (int i = 0; i < size; i++)
        fill(output + i * count, count, rank, i);
    require_ok(tutti_scatter(world, &in, &out, root, NULL, NULL));
    check_block(rank * count, count, root, rank);
    for (int i = 0; i < size; i++)
        fill(output + i * count, count, rank, i);
    require_ok(tutti_reduce_scatter(world, &in, &out, TUTTI_MAX, NULL, NULL));
    check_block(rank * count, count, size - 1, rank);
}

RANK_CASE(scatters_take_every_form)
{
    tutti_group *world = rank_init(NULL);

    for (int root = 0; root < size; root++) {
        scatters_of(world, rank, size, root, 7);
        scatters_of(world, rank, size, root, BLOCK_MAX);
        scatters_in_place(world, rank, size, root, 0);
        scatters_in_place(world, rank, size, root, 5);
        scatters_in_place(world, rank, size, root, BLOCK_MAX);
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- all_to_all ------------------------------------------------------------------------------- */

static void all_to_all_of(tutti_group *world, int rank, int size, int64_t most)
{
    int64_t in_counts[MEMBERS_MAX] = {0}, out_counts[MEMBERS_MAX] = {0}, in_shape, out_shape;
    struct uneven ins, outs;

    for (int i = 0; i < size; i++) {
        in_counts[i] = uneven_count(rank, i, most);
        out_counts[i] = uneven_count(i, rank, most);
    }
    uneven_make(&ins, input, size, in_counts);
    uneven_make(&outs, output, size, out_counts);
    for (int i = 0; i < size; i++)
        fill(input + ins.offsets[i], in_counts[i], rank, i);
    tutti_tensor in = vector_of(input, &in_shape, ins.total);
    tutti_tensor out = vector_of(output, &out_shape, outs.total);

    clear();
    /* Lists and counts meet. */
    require_ok(rank % 2 ? tutti_all_to_all_list(world, ins.list, outs.list, NULL, NULL)
                        : tutti_all_to_all_v(world, &in, ins.counts, ins.offsets, &out, outs.counts,
                                             outs.offsets, NULL, NULL));
    for (int i = 0; i < size; i++) {
        check_block(outs.offsets[i], out_counts[i], i, rank);
        check_gap(&outs, i);
    }
}

static void all_to_all_in_place(tutti_group *world, int rank, int size, int64_t count)
{
    int64_t shape;
    tutti_tensor both = vector_of(output, &shape, count * size);

    for (int i = 0; i < size; i++)
        fill(output + i * count, count, rank, i);
    require_ok(tutti_all_to_all(world, &both, &both, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_block(i * count, count, i, rank);
}

/* As a list, and with counts: a block for i is as long as the one of i. */
static void all_to_all_of_uneven_blocks_in_place(tutti_group *world, int rank, int size)
{
    int64_t shape, counts[MEMBERS_MAX];
    tutti_tensor all = vector_of(output, &shape, ROOM);
    struct uneven both;

    for (int i = 0; i < size; i++)
        counts[i] = i < rank ? uneven_count(i, rank, BLOCK_MAX) : uneven_count(rank, i, BLOCK_MAX);
    for (int form = 0; form < 2; form++) {
        clear();
        uneven_make(&both, output, size, counts);
        for (int i = 0; i < size; i++)
            fill(output + both.offsets[i], counts[i], rank, i);
        require_ok(form ? tutti_all_to_all_v(world, &all, counts, both.offsets, &all, counts,
                                             both.offsets, NULL, NULL)
                        : tutti_all_to_all_list(world, both.list, both.list, NULL, NULL));
        for (int i = 0; i < size; i++) {
            check_block(both.offsets[i], counts[i], i, rank);
            check_gap(&both, i);
        }
    }
}

RANK_CASE(all_to_all_takes_every_form)
{
    tutti_group *world = rank_init(NULL);

    for (int round = 0; round < 2; round++) {
        all_to_all_of(world, rank, size, 7);
        all_to_all_of(world, rank, size, BLOCK_MAX);
        all_to_all_in_place(world, rank, size, 0);
        all_to_all_in_place(world, rank, size, 5);
        all_to_all_in_place(world, rank, size, BLOCK_MAX);
        all_to_all_of_uneven_blocks_in_place(world, rank, size);
    }
    check_ok(tutti_group_destroy(world));
}

/* Members that put short blocks together in one message; a number that is no power of two. */
RANK_CASE(short_blocks_of_many_members_arrive)
{
    tutti_group *world = rank_init(NULL);
    const int roots[] = {0, 6, size - 1};

    for (int i = 0; i < 3; i++) {
        forms_of_one_size(world, rank, size, roots[i], 0);
        forms_of_one_size(world, rank, size, roots[i], 5);
        scatters_in_place(world, rank, size, roots[i], 0);
        scatters_in_place(world, rank, size, roots[i], 5);
        all_to_all_in_place(world, rank, size, 5 * i);
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- what is refused -------------------------------------------------------------------------- */

RANK_CASE(wrong_blocks_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[3], counts[MEMBERS_MAX] = {4, 4, 4};
    tutti_tensor four = vector_of(input, &shapes[0], 4), odd = vector_of(output, &shapes[1], 13);
    tutti_tensor whole = vector_of(output, &shapes[2], 4 * size), floats = whole;
    const tutti_tensor *list[MEMBERS_MAX] = {&four, &odd, &four};

    floats.dtype = TUTTI_F32;
    check_status(tutti_all_gather(world, &four, &odd, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "13 elements");
    check_status(tutti_all_gather(world, &four, &floats, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "f32");
    check_status(tutti_reduce_scatter(world, &whole, &odd, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "block");
    counts[size - 1] = 5;
    check_status(tutti_all_gather_v(world, &four, &whole, counts, NULL, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "does not lie in the tensor");
    counts[size - 1] = -1;
    check_status(tutti_all_gather_v(world, &four, &whole, counts, NULL, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_gather_list(world, &four, list, rank, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "use the _v form");
    check_status(tutti_scatter(world, NULL, &four, rank, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_gather(world, &four, &whole, size, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_all_to_all_list(world, NULL, list, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    four = vector_of(output + 1, &shapes[0], 4);
    check_status(tutti_all_gather(world, &four, &whole, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap");
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

/* The first blocks are the same, or lie apart; the last one of the input reaches into the output. */
RANK_CASE(all_to_all_of_blocks_that_partly_overlap_is_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[3], counts[MEMBERS_MAX], offsets[MEMBERS_MAX], moved[MEMBERS_MAX];
    tutti_tensor all = vector_of(output, &shapes[0], ROOM), first, last;
    const tutti_tensor *list[MEMBERS_MAX];
    struct uneven outs;

    for (int i = 0; i < size; i++) {
        counts[i] = 4;
        moved[i] = offsets[i] = 8 * (int64_t)i;
    }
    uneven_make(&outs, output, size, counts);
    memcpy(list, outs.list, sizeof list);
    last = vector_of(output + outs.offsets[size - 1] + 2, &shapes[1], 4);
    list[size - 1] = &last;
    check_status(tutti_all_to_all_list(world, list, outs.list, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap; give the same blocks on both sides");
    first = vector_of(input, &shapes[2], 4);
    list[0] = &first;
    check_status(tutti_all_to_all_list(world, list, outs.list, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap");
    moved[size - 1] += 2;
    check_status(tutti_all_to_all_v(world, &all, counts, moved, &all, counts, offsets, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap");
    for (int i = 0; i < size; i++) /* between the output's blocks */
        moved[i] = offsets[i] + 4;
    check_ok(tutti_all_to_all_v(world, &all, counts, moved, &all, counts, offsets, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(output_blocks_that_overlap_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[3], counts[MEMBERS_MAX], offsets[MEMBERS_MAX], apart[MEMBERS_MAX];
    tutti_tensor four = vector_of(input, &shapes[0], 4), all = vector_of(output, &shapes[1], ROOM);
    tutti_tensor whole = vector_of(input, &shapes[2], ROOM);
    const tutti_tensor *list[MEMBERS_MAX];

    for (int i = 0; i < size; i++) {
        counts[i] = 4;
        offsets[i] = 2 * i;
        apart[i] = 4 * (size - 1 - i); /* the last one first */
        list[i] = &four;
    }
    check_status(tutti_all_gather_v(world, &four, &all, counts, offsets, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the output: blocks 0 and 1 overlap");
    check_status(
        tutti_all_to_all_v(world, &whole, counts, apart, &all, counts, offsets, NULL, NULL),
        TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the output: blocks 0 and 1 overlap");
    check_status(tutti_gather_list(world, &all, list, rank, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    four = vector_of(output, &shapes[0], 4);
    fill(output, 4, rank, 0);
    check_status(tutti_all_gather_list(world, &four, list, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the output: blocks 0 and 1 overlap");
    four = vector_of(input, &shapes[0], 4);
    fill(input, 4, rank, 0);
    check_ok(tutti_all_gather_v(world, &four, &all, counts, apart, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_block(apart[i], 4, i, 0);
    check_ok(tutti_group_destroy(world));
}

/* In place: the first tensor is strided, the others lie one behind the other. */
RANK_CASE(all_to_all_takes_a_list_in_place_of_which_some_are_strided)
{
    enum { COUNT = 5 };
    tutti_group *world = rank_init(NULL);
    int64_t shapes[MEMBERS_MAX], stride = 3;
    tutti_tensor tensors[MEMBERS_MAX];
    const tutti_tensor *list[MEMBERS_MAX];

    for (int i = 0; i < size; i++) {
        int32_t *at = output + i * 4 * COUNT;

        tensors[i] = vector_of(at, &shapes[i], COUNT);
        if (i == 0)
            tensors[i].strides = &stride;
        for (int k = 0; k < COUNT; k++)
            at[k * (i ? 1 : 3)] = value(rank, i, k);
        list[i] = &tensors[i];
    }
    require_ok(tutti_all_to_all_list(world, list, list, NULL, NULL));
    for (int i = 0; i < size; i++)
        for (int k = 0; k < COUNT; k++)
            check_eq(output[i * 4 * COUNT + k * (i ? 1 : 3)], value(i, rank, k));
    check_ok(tutti_group_destroy(world));
}

/* Rank 1 expects one element more of rank 0 than that has for it. */
RANK_CASE(sizes_that_do_not_fit_together_are_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[2], ins[MEMBERS_MAX], outs[MEMBERS_MAX];

    for (int i = 0; i < size; i++)
        ins[i] = outs[i] = 3;
    if (rank == 1)
        outs[0] = 4;
    tutti_tensor in = vector_of(input, &shapes[0], 3 * size);
    tutti_tensor out = vector_of(output, &shapes[1], 3 * size + 1);
    tutti_status status = tutti_all_to_all_v(world, &in, ins, NULL, &out, outs, NULL, NULL, NULL);

    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    check_eq(status, TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "16 bytes");
    check_contains(tutti_last_error(), "12 bytes");
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

/* The same sum, cut in other places. */
/* The one promises that all blocks have one size, which members of the other cannot know. */
RANK_CASE(the_plain_form_and_a_list_of_all_to_all_are_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[2];
    int64_t counts[MEMBERS_MAX];
    struct uneven ins, outs;

    for (int i = 0; i < size; i++)
        counts[i] = 3;
    uneven_make(&ins, input, size, counts);
    uneven_make(&outs, output, size, counts);
    tutti_tensor in = vector_of(input, &shapes[0], 3 * size);
    tutti_tensor out = vector_of(output, &shapes[1], 3 * size);
    tutti_status status = rank == 1 ? tutti_all_to_all_list(world, ins.list, outs.list, NULL, NULL)
                                    : tutti_all_to_all(world, &in, &out, NULL, NULL);

    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    check_eq(status, TUTTI_ERR_MISMATCH);
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

RANK_CASE(other_counts_of_the_same_sum_are_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[2], counts[MEMBERS_MAX] = {3, 3, 3};

    if (rank == 2) {
        counts[0] = 4;
        counts[1] = 2;
    }
    tutti_tensor in = vector_of(input, &shapes[0], 3);
    tutti_tensor out = vector_of(output, &shapes[1], 9);

    check_status(tutti_all_gather_v(world, &in, &out, counts, NULL, NULL, NULL),
                 TUTTI_ERR_MISMATCH);
    const char *first = strstr(tutti_last_error(), "sizes #");
    check_contains(first ? first + 1 : tutti_last_error(), "sizes #"); /* of both sides */
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

RANK_CASE(a_monitored_barrier_names_all_missing_ranks)
{
    tutti_group *world = rank_init(NULL);
    tutti_group_info info = {.struct_size = sizeof info};
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;
    tutti_tensor t = vector_of(input, &shape, 1);
    tutti_work *work;

    require_ok(tutti_monitored_barrier(world, NULL, NULL));
    options.timeout_ms = 700; /* of rank 0, which calls when rank 2 has */
    if (rank == 1 || rank == 3) {
        while (!tutti_group_status(world, &info) && info.state == TUTTI_GROUP_READY)
            rank_sleep_ms(1);
        check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_TIMEOUT);
    } else if (rank == 2) {
        require_ok(tutti_monitored_barrier(world, NULL, &work));
        require_ok(tutti_send(world, &t, 0, 1, NULL));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_TIMEOUT);
        tutti_work_free(work);
    } else {
        require_ok(tutti_recv(world, &t, 2, 1, NULL, NULL));
        tutti_error_info error = {.struct_size = sizeof error};

        check_status(tutti_monitored_barrier(world, &options, NULL), TUTTI_ERR_TIMEOUT);
        check_ok(tutti_last_error_info(&error));
        check_eq(error.missing_count, 2);
        check(error.missing && error.missing[0] + error.missing[1] == 1 + 3);
    }
    check_contains(tutti_last_error(), "rank 1");
    check_contains(tutti_last_error(), "rank 3 has not called it either");
    check(!strstr(tutti_last_error(), "rank 2"));
    check_eq(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}
