/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tutti/tensor.h>

static float memory[64];

Test(tensor, dtypes_have_a_size_and_a_name_that_parses_back, .timeout = 5)
{
#define CHECK(NAME, name, code, bits)                                                              \
    cr_expect_eq(tutti_dtype_size(TUTTI_##NAME), (bits) / 8);                                      \
    cr_expect_str_eq(tutti_dtype_name(TUTTI_##NAME), name);                                        \
    cr_expect_eq(tutti_dtype_parse(name), (tutti_dtype)TUTTI_##NAME);                              \
    cr_expect_eq((tutti_dtype)TUTTI_##NAME, TUTTI_DTYPE(code, bits));
    TUTTI_DTYPE_LIST(CHECK)
#undef CHECK

    const tutti_dtype two_lanes = (TUTTI_F32 & 0xffff) | 2 << 16;
    const tutti_dtype unknown[] = {0, UINT32_MAX, TUTTI_DTYPE(0, 4), TUTTI_DTYPE(5, 32), two_lanes};

    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        cr_expect_eq(tutti_dtype_size(unknown[i]), 0, "dtype %#x", unknown[i]);
        cr_expect_str_eq(tutti_dtype_name(unknown[i]), "?");
    }
    cr_expect_eq(tutti_dtype_parse("f31"), 0);
    cr_expect_eq(tutti_dtype_parse("?"), 0);
    cr_expect_eq(tutti_dtype_parse(""), 0);
    cr_expect_eq(tutti_dtype_parse(NULL), 0);
}

Test(tensor, reduce_operations_have_names, .timeout = 5)
{
#define CHECK(NAME, name, number) cr_expect_str_eq(tutti_reduce_op_name(number), name);
    TUTTI_REDUCE_OP_LIST(CHECK)
#undef CHECK
    cr_expect_str_eq(tutti_reduce_op_name(-1), "?");
    cr_expect_str_eq(tutti_reduce_op_name(9), "?");
    cr_expect_str_eq(tutti_reduce_op_name(64), "user op");
}

struct shape_case {
    const char *what;
    int32_t ndim;
    int64_t shape[4];
    bool strided;
    int64_t strides[4];
    tutti_dtype dtype;  /* 0: f32 */
    uint64_t count;     /* of a sound tensor */
    tutti_status error; /* of the others, whose text the message contains */
    const char *words;
};

#define INVALID .error = TUTTI_ERR_INVALID_ARGUMENT, .words
#define UNSUPPORTED .error = TUTTI_ERR_UNSUPPORTED, .words
#define STRIDES .strided = true, .strides

static const struct shape_case shapes[] = {
    {"a scalar", .count = 1},
    {"a vector", 1, {5}, .count = 5},
    {"a matrix", 2, {3, 4}, STRIDES = {4, 1}, .dtype = TUTTI_F16, .count = 12},
    {"strides of extents of 1", 4, {1, 3, 1, 4}, STRIDES = {-7, 4, 99, 1}, .count = 12},
    {"strides of an empty tensor", 2, {0, 4}, STRIDES = {9, 9}, .count = 0},
    {"an overflow before an extent of 0", 3, {INT64_MAX, INT64_MAX, 0}, .count = 0},
    {"ndim of -1", -1, {1}, INVALID = "ndim is -1"},
    {"ndim of 2^31 - 1",
     INT32_MAX,
     {1},
     INVALID = "ndim is 2147483647; 1024 dimensions are the most"},
    {"an extent of -2", 2, {3, -2}, INVALID = "shape[1] is -2"},
    {"an extent of -2 beside one of 0", 2, {0, -2}, INVALID = "shape[1] is -2"},
    {"2^64 elements", 2, {INT64_C(1) << 32, INT64_C(1) << 32}, INVALID = "fit into 64 bits"},
    {"2^64 bytes", 1, {INT64_C(1) << 62}, INVALID = "not fit into memory"},
    {"2^63 bytes", 1, {INT64_C(1) << 61}, INVALID = "not fit into memory"},
    {"a transposed matrix", 2, {3, 4}, STRIDES = {1, 3}, .count = 12},
    {"every second element", 1, {3}, STRIDES = {2}, .count = 3},
    {"a matrix with padded rows", 2, {3, 4}, STRIDES = {8, 1}, .count = 12},
    {"an expanded vector", 1, {3}, STRIDES = {0}, .count = 3},
    {"an expanded scalar of 2^63 bytes", 1, {INT64_C(1) << 61}, STRIDES = {0}, INVALID = "memory"},
    {"a stride of 2^63 bytes", 1, {2}, STRIDES = {INT64_C(1) << 61}, INVALID = "2^63 bytes"},
    {"a stride of -2^65 bytes", 1, {2}, STRIDES = {INT64_MIN}, INVALID = "2^63 bytes"},
    {"strides whose reach is 2^63 bytes",
     2,
     {3, 3},
     STRIDES = {INT64_C(1) << 59, INT64_C(1) << 59},
     INVALID = "2^63 bytes"},
    {"a reach before the address space",
     1,
     {2},
     STRIDES = {-(INT64_C(1) << 60)},
     INVALID = "beyond the address space"},
    {"complex", 1, {3}, .dtype = TUTTI_DTYPE(5, 32), UNSUPPORTED = "code 5, bits 32, lanes 1"},
};

Test(tensor, measure_counts_what_is_sound_and_refuses_the_rest_in_words, .timeout = 5)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape_case *c = &shapes[i];
        int64_t shape[4], strides[4];
        tutti_tensor t = tutti_tensor_1d(memory, c->dtype ? c->dtype : TUTTI_F32, shape, 0);
        uint64_t count = 77, bytes = 78;

        memcpy(shape, c->shape, sizeof shape);
        memcpy(strides, c->strides, sizeof strides);
        t.ndim = c->ndim;
        t.strides = c->strided ? strides : NULL;
        cr_expect_eq(tutti_tensor_measure(&t, &count, &bytes), c->error, "%s", c->what);
        if (c->error == TUTTI_OK) {
            cr_expect_eq(count, c->count, "%s", c->what);
            cr_expect_eq(bytes, c->count * tutti_dtype_size(t.dtype), "%s", c->what);
        } else {
            cr_expect(count == 77 && bytes == 78, "%s: outputs written on failure", c->what);
            cr_expect_not_null(strstr(tutti_last_error(), c->words), "%s: %s", c->what,
                               tutti_last_error());
        }
    }
}

Test(tensor, pointers_are_checked_only_where_there_are_elements, .timeout = 5)
{
    int64_t extent;
    tutti_tensor t = tutti_tensor_1d(NULL, TUTTI_F32, &extent, 0);
    uint64_t bytes;

    cr_expect_eq(tutti_tensor_measure(&t, NULL, &bytes), TUTTI_OK);
    cr_expect_eq(bytes, 0);
    extent = 1;
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "data is NULL"));
    t.byte_offset = 64; /* an offset does not make NULL a place */
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);

    t.data = memory;
    t.byte_offset = 3; /* any alignment will do */
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_OK);
    t.byte_offset = UINT64_MAX - 1;
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "beyond the address space"));
    t.byte_offset = UINT64_MAX - (uintptr_t)memory - 2; /* it begins inside, and ends outside */
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);

    t = tutti_tensor_1d(memory, TUTTI_F32, &extent, 1);
    t.shape = NULL;
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    t.ndim = 0;
    cr_expect_eq(tutti_tensor_measure(&t, NULL, NULL), TUTTI_OK);
    cr_expect_eq(tutti_tensor_measure(NULL, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "NULL"));
}
