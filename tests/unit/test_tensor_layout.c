/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strides against a plain walk over all indices: random views of an array (transposed, sliced,
 * flipped, with extents of 1 and 0), and strides that nobody chose.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../conformance/random.h"
#include "tensor/packed.h"

enum { RANK = 6, SPACE = 1 << 14, ROUNDS = 20000 };

static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_F16, TUTTI_F32, TUTTI_F64};

struct trial {
    uint64_t seed;
    tutti_tensor tensor;
    int64_t shape[RANK], strides[RANK];
    int64_t places[SPACE]; /* of element k, in elements, counted from the first */
    uint64_t count;
};

static unsigned char memory[SPACE], before[SPACE], row_major[SPACE];
static struct trial trial;

/* In row-major order of the indices, one index after the other. */
static void walk(struct trial *t)
{
    int64_t index[RANK] = {0};
    bool empty = false;

    t->count = 0;
    for (int i = 0; i < t->tensor.ndim; i++)
        empty |= t->shape[i] == 0;
    while (!empty) {
        int64_t place = 0;
        int i;

        for (i = 0; i < t->tensor.ndim; i++)
            place += index[i] * t->strides[i];
        t->places[t->count++] = place;
        for (i = t->tensor.ndim - 1; i >= 0 && ++index[i] == t->shape[i]; i--)
            index[i] = 0;
        empty = i < 0;
    }
}

static void begin(struct trial *t, uint64_t seed)
{
    t->seed = seed;
    t->tensor = (tutti_tensor){.data = memory,
                               .device = {TUTTI_DEVICE_CPU, 0},
                               .dtype = dtypes[random_below(&t->seed, 4)],
                               .shape = t->shape,
                               .strides = t->strides};
    for (size_t i = 0; i < SPACE; i++)
        memory[i] = (unsigned char)random_next(&t->seed);
    memcpy(before, memory, SPACE);
}

/* What slicing, transposing and flipping make of a C-contiguous array. */
static void make_view(struct trial *t)
{
    int64_t step = 1, offset = 0;
    const int rank = (int)random_below(&t->seed, RANK);

    t->tensor.ndim = rank;
    for (int i = rank - 1; i >= 0; i--) {
        const int64_t whole = 1 + random_below(&t->seed, 4);
        const int64_t begin = random_below(&t->seed, (unsigned)whole);
        const int64_t skip = 1 + random_below(&t->seed, 2);

        t->shape[i] = (whole - begin + skip - 1) / skip;
        t->strides[i] = step * skip;
        offset += begin * step;
        if (random_below(&t->seed, 3) == 0) {
            offset += (t->shape[i] - 1) * t->strides[i];
            t->strides[i] = -t->strides[i];
        }
        if (random_below(&t->seed, 40) == 0)
            t->shape[i] = 0;
        step *= whole;
    }
    for (int i = rank - 1; i > 0; i--) {
        const int k = (int)random_below(&t->seed, (unsigned)i + 1);
        const int64_t extent = t->shape[i], stride = t->strides[i];

        t->shape[i] = t->shape[k];
        t->strides[i] = t->strides[k];
        t->shape[k] = extent;
        t->strides[k] = stride;
    }
    for (int i = 0; i < rank; i++) /* never stepped over, so nothing is wrong with it */
        if (t->shape[i] == 1 && random_below(&t->seed, 2))
            t->strides[i] = INT64_MAX;
    t->tensor.byte_offset = (uint64_t)offset * tutti_dtype_size(t->tensor.dtype);
}

static void make_anything(struct trial *t)
{
    t->tensor.ndim = (int32_t)random_below(&t->seed, 5);
    for (int i = 0; i < t->tensor.ndim; i++) {
        t->shape[i] = 1 + random_below(&t->seed, 4);
        t->strides[i] = (int64_t)random_below(&t->seed, 25) - 12;
    }
    t->tensor.byte_offset = SPACE / 2;
}

static unsigned char *element_at(const struct trial *t, uint64_t k)
{
    const int64_t element = (int64_t)tutti_dtype_size(t->tensor.dtype);

    return memory + t->tensor.byte_offset + t->places[k] * element;
}

static int compare_places(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool has_collision(const struct trial *t)
{
    static int64_t sorted[SPACE];

    memcpy(sorted, t->places, t->count * sizeof *sorted);
    qsort(sorted, t->count, sizeof *sorted, compare_places);
    for (uint64_t k = 1; k < t->count; k++)
        if (sorted[k] == sorted[k - 1])
            return true;
    return false;
}

static void check_read(struct trial *t, uint64_t seed)
{
    const size_t element = tutti_dtype_size(t->tensor.dtype);
    struct packed *list = NULL;
    struct tensor_size size;
    void *data;

    cr_assert_eq(tensor_measure(&t->tensor, &size), TUTTI_OK, "seed %lu: %s", seed,
                 tutti_last_error());
    cr_assert_eq(size.count, t->count, "seed %lu", seed);
    cr_assert_eq(packed_use(&t->tensor, &size, "it", TENSOR_READ, &list, &data), TUTTI_OK);
    cr_assert_eq(size.contiguous, list == NULL, "seed %lu", seed);
    for (uint64_t k = 0; k < t->count; k++)
        cr_assert(!memcmp((char *)data + k * element, element_at(t, k), element),
                  "seed %lu: element %lu", seed, k);
    packed_end(&list, true);
    cr_assert(!memcmp(memory, before, SPACE), "seed %lu: what is only read was written", seed);
}

/* Every element is written, and nothing else is; or nothing at all where the operation failed. */
static void check_write(struct trial *t, uint64_t seed, bool succeeds)
{
    const size_t element = tutti_dtype_size(t->tensor.dtype);
    struct packed *list = NULL;
    struct tensor_size size;
    void *data;

    tensor_measure(&t->tensor, &size);
    cr_assert_eq(packed_use(&t->tensor, &size, "it", TENSOR_WRITTEN, &list, &data), TUTTI_OK);
    if (size.contiguous)
        return;
    for (uint64_t i = 0; i < size.bytes; i++)
        row_major[i] = (unsigned char)random_next(&t->seed);
    memcpy(data, row_major, size.bytes);
    t->tensor.shape = t->tensor.strides = NULL; /* the caller's, which may have dropped them */
    packed_end(&list, succeeds);
    for (uint64_t k = 0; succeeds && k < t->count; k++)
        memcpy(before + (element_at(t, k) - memory), row_major + k * element, element);
    cr_assert(!memcmp(memory, before, SPACE), "seed %lu", seed);
}

Test(tensor_layout, views_of_an_array_are_read_and_written_in_row_major_order, .timeout = 60)
{
    uint64_t packed = 0;

    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct tensor_size size;

        begin(&trial, seed);
        make_view(&trial);
        walk(&trial);
        check_read(&trial, seed);
        tensor_measure(&trial.tensor, &size);
        packed += !size.contiguous;
        check_write(&trial, seed, seed % 8 != 0);
    }
    cr_expect_gt(packed, ROUNDS / 4, "%lu views were packed", packed);
}

Test(tensor_layout, what_shares_a_place_is_read_and_never_written, .timeout = 60)
{
    uint64_t refused = 0, in_vain = 0;

    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct packed *list = NULL;
        struct tensor_size size;
        void *data;

        begin(&trial, seed);
        make_anything(&trial);
        walk(&trial);
        check_read(&trial, seed);
        tensor_measure(&trial.tensor, &size);
        tutti_status status =
            packed_use(&trial.tensor, &size, "the output", TENSOR_BOTH, &list, &data);
        packed_end(&list, false);
        if (!status) {
            cr_assert(!has_collision(&trial), "seed %lu: a collision is written", seed);
            check_write(&trial, seed, true);
            continue;
        }
        cr_assert_eq(status, TUTTI_ERR_UNSUPPORTED);
        cr_assert_not_null(strstr(tutti_last_error(), "the output is written, but by its strides"));
        refused++;
        in_vain += !has_collision(&trial);
    }
    cr_expect_gt(refused, ROUNDS / 10);
    cr_expect_lt(in_vain, refused / 2, "%lu of %lu refusals had no collision", in_vain, refused);
}

/* Larger than a tile in both directions, which the small views are not. */
Test(tensor_layout, planes_of_many_tiles_are_transposed, .timeout = 10)
{
    enum { ROWS = 70, COLUMNS = 45 };
    static uint32_t from[2 * ROWS * COLUMNS];
    int64_t shape[] = {2, COLUMNS, ROWS}, strides[] = {ROWS * COLUMNS, 1, COLUMNS};
    tutti_tensor t = {.data = from,
                      .device = {TUTTI_DEVICE_CPU, 0},
                      .ndim = 3,
                      .dtype = TUTTI_F32,
                      .shape = shape,
                      .strides = strides};
    struct packed *list = NULL;
    struct tensor_size size;
    void *data;

    for (uint32_t i = 0; i < 2 * ROWS * COLUMNS; i++)
        from[i] = i;
    cr_assert_eq(tensor_measure(&t, &size), TUTTI_OK);
    cr_assert_eq(packed_use(&t, &size, "it", TENSOR_BOTH, &list, &data), TUTTI_OK);
    uint32_t(*to)[COLUMNS][ROWS] = data;
    for (uint32_t n = 0; n < 2; n++)
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t c = 0; c < COLUMNS; c++) {
                cr_assert_eq(to[n][c][r], (n * ROWS + r) * COLUMNS + c);
                to[n][c][r] += 7;
            }
    packed_end(&list, true);
    for (uint32_t i = 0; i < 2 * ROWS * COLUMNS; i++)
        cr_assert_eq(from[i], i + 7);
}

Test(tensor_layout, any_rank_is_served_as_only_62_extents_can_be_longer_than_1, .timeout = 10)
{
    enum { MANY = 200 };
    static int64_t shape[MANY], strides[MANY];
    uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    tutti_tensor t = {.data = bytes,
                      .device = {TUTTI_DEVICE_CPU, 0},
                      .ndim = MANY,
                      .dtype = TUTTI_U8,
                      .shape = shape,
                      .strides = strides};
    struct packed *list = NULL;
    struct tensor_size size;
    void *data;

    for (int i = 0; i < MANY; i++)
        shape[i] = strides[i] = 1;
    shape[20] = shape[120] = 2;
    strides[120] = 5;
    cr_assert_eq(tensor_measure(&t, &size), TUTTI_OK);
    cr_assert_eq(packed_use(&t, &size, "it", TENSOR_READ, &list, &data), TUTTI_OK);
    cr_expect(!memcmp(data, (uint8_t[]){1, 6, 2, 7}, 4));
    packed_end(&list, true);

    for (int i = 0; i < 62; i++) { /* 2^62 elements in one place */
        shape[i] = 2;
        strides[i] = 0;
    }
    shape[120] = 1;
    cr_assert_eq(tensor_measure(&t, &size), TUTTI_OK);
    cr_expect_eq(size.count, UINT64_C(1) << 62);
    cr_expect_eq(packed_use(&t, &size, "it", TENSOR_WRITTEN, &list, &data), TUTTI_ERR_UNSUPPORTED);
}

Test(tensor_layout, a_copy_that_cannot_be_had_is_refused_in_words, .timeout = 10)
{
    int64_t shape = INT64_MAX, stride = 0;
    tutti_tensor t = {.data = memory,
                      .device = {TUTTI_DEVICE_CPU, 0},
                      .ndim = 1,
                      .dtype = TUTTI_U8,
                      .shape = &shape,
                      .strides = &stride};
    struct packed *list = NULL;
    struct tensor_size size;
    void *data;

    cr_assert_eq(tensor_measure(&t, &size), TUTTI_OK);
    cr_expect_eq(packed_use(&t, &size, "the input", TENSOR_READ, &list, &data),
                 TUTTI_ERR_NO_MEMORY);
    cr_expect_not_null(strstr(tutti_last_error(), "the input is not C-contiguous"));
    cr_expect_null(list);
}
