/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed order, and operations made at run time, in all operations that reduce. What is expected
 * is computed here from the ranks' inputs by the tree of the public header, so the same test on any
 * backend, layout and size says that the bits are the same everywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"
#include "unit/reduce_reference.h"

enum {
    MEMBERS_MAX = 8,
    PERIOD = 61, /* inputs repeat, so that the expectation is short work */
    BLOCK_BYTES = 256 * 1024,
    BYTES = MEMBERS_MAX * BLOCK_BYTES
};

static _Alignas(64) unsigned char input[BYTES], output[BYTES];

/* ---- inputs, and what comes out --------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* Floats of different exponents, whose sum depends on the order. */
static reference_bits element(tutti_dtype dtype, int rank, int64_t i)
{
    const uint64_t random = mix((uint64_t)rank * PERIOD + (uint64_t)(i % PERIOD));
    const double x = ldexp((double)(int64_t)random, -64 + (int)(random % 7));
    const double y = ldexp((double)(int64_t)mix(random), -63);

    if (reference_is_complex(dtype))
        return reference_complex(dtype, x, y);
    return reference_is_float(dtype) ? reference_encode(dtype, x)
                                     : reference_wrap(dtype, (__int128)random);
}

static void put(void *at, int64_t i, reference_bits bits, size_t width)
{
    memcpy((unsigned char *)at + (size_t)i * width, &bits, width);
}

static void fill(tutti_dtype dtype, int rank, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        put(input, i, element(dtype, rank, i), tutti_dtype_size(dtype));
}

static reference_bits expected(tutti_dtype dtype, tutti_reduce_op op, int size, int64_t i)
{
    reference_bits operands[MEMBERS_MAX];

    for (int rank = 0; rank < size; rank++)
        operands[rank] = element(dtype, rank, i);
    return op == TUTTI_AVG ? reference_tree_average(dtype, operands, size)
                           : reference_tree(dtype, op, operands, size);
}

/* `at` has the elements from `first` on. */
static void check_tree(const void *at, tutti_dtype dtype, tutti_reduce_op op, int size,
                       int64_t first, int64_t count, const char *operation)
{
    const size_t width = tutti_dtype_size(dtype);
    reference_bits want[PERIOD];

    for (int64_t i = 0; i < PERIOD; i++)
        want[i] = expected(dtype, op, size, i);
    for (int64_t i = 0; i < count; i++)
        if (memcmp((const unsigned char *)at + (size_t)i * width, &want[(first + i) % PERIOD],
                   width)) {
            check(!"the bits of the tree");
            rank_value("bits", "%s of %lld x %s, %s, %d members, element %lld", operation,
                       (long long)count, tutti_dtype_name(dtype), tutti_reduce_op_name(op), size,
                       (long long)i);
            return;
        }
}

/* ---- fixed order ------------------------------------------------------------------------------ */

struct job {
    tutti_group *world;
    int rank, size;
    tutti_dtype dtype;
    tutti_reduce_op op;
    const tutti_options *options;
};

static void all_forms(const struct job *job, int64_t count)
{
    const size_t width = tutti_dtype_size(job->dtype);
    const int root = (int)(count % job->size);
    int64_t shape, out_shape;
    tutti_tensor in = tutti_tensor_1d(input, job->dtype, &shape, count);
    tutti_tensor out = tutti_tensor_1d(output, job->dtype, &out_shape, count);

    fill(job->dtype, job->rank, count);
    require_ok(tutti_all_reduce_into(job->world, &in, &out, job->op, job->options, NULL));
    check_tree(output, job->dtype, job->op, job->size, 0, count, "all_reduce");
    memset(output, 0, (size_t)count * width);
    require_ok(tutti_reduce_into(job->world, &in, &out, job->op, root, job->options, NULL));
    if (job->rank == root)
        check_tree(output, job->dtype, job->op, job->size, 0, count, "reduce");
    shape *= job->size;
    fill(job->dtype, job->rank, shape);
    require_ok(tutti_reduce_scatter(job->world, &in, &out, job->op, job->options, NULL));
    check_tree(output, job->dtype, job->op, job->size, job->rank * count, count, "reduce_scatter");
}

static void fixed_order(tutti_group *world, int rank, int size, const tutti_options *options)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_BF16,     TUTTI_F16,
                                         TUTTI_F64, TUTTI_F8E4M3FN, TUTTI_C64};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_PRODUCT};
    static const int64_t bytes[] = {0, 16, 1024, 4096, 4112, 48 * 1024, BLOCK_BYTES};

    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            for (size_t b = 0; b < sizeof bytes / sizeof bytes[0]; b++) {
                const struct job job = {world, rank, size, dtypes[d], ops[o], options};

                if ((d + o + b) % 2 == 0) /* half of them: they are many */
                    all_forms(&job, bytes[b] / (int64_t)tutti_dtype_size(dtypes[d]));
            }
}

RANK_CASE(the_fixed_order_gives_the_bits_of_the_tree)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.flags = TUTTI_FIXED_ORDER;
    fixed_order(world, rank, size, &options);
    check_ok(tutti_group_destroy(world));
}

/* Where a partial sum would be rounded, or leave the range of its dtype. */
RANK_CASE(a_mean_never_lies_outside_its_operands)
{
    static const tutti_dtype dtypes[] = {TUTTI_F16, TUTTI_F8E4M3FN, TUTTI_F8E5M2};
    static const int64_t counts[] = {1, 700, 30000, BLOCK_BYTES / 2};
    static const double of_dtype[][2] = {{65504, 0x1p-24}, {448, 0x1p-9}, {57344, 0x1p-16}};
    tutti_group *world = rank_init(NULL);

    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            const struct job job = {world, rank, size, dtypes[d], TUTTI_AVG, NULL};

            for (int i = 0; i < 2; i++) {
                const reference_bits bits = reference_encode(dtypes[d], of_dtype[d][i]);
                int64_t shape;
                tutti_tensor t = tutti_tensor_1d(input, dtypes[d], &shape, counts[c]);

                for (int64_t k = 0; k < counts[c]; k++)
                    put(input, k, bits, tutti_dtype_size(dtypes[d]));
                require_ok(tutti_all_reduce(world, &t, TUTTI_AVG, NULL, NULL));
                check(!memcmp(input, &bits, tutti_dtype_size(dtypes[d])));
                check(!memcmp(input, input + tutti_dtype_size(dtypes[d]),
                              (size_t)(counts[c] - 1) * tutti_dtype_size(dtypes[d])));
            }
            all_forms(&job, counts[c]); /* rounded once, in the order of the tree */
        }
    check_ok(tutti_group_destroy(world));
}

/* With TUTTI_REPRODUCIBLE=1 no call says so itself. */
RANK_CASE(the_environment_asks_for_the_fixed_order)
{
    tutti_group *world = rank_init(NULL);

    fixed_order(world, rank, size, NULL);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_member_without_the_fixed_order_is_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    float x = 1;
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&x, TUTTI_F32, &shape, 1);

    options.flags = rank == 1 ? 0 : TUTTI_FIXED_ORDER;
    tutti_status status = tutti_all_reduce(world, &t, TUTTI_SUM, &options, NULL);
    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    check_eq(status, TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "1 x f32, sum, fixed order");
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

/* ---- operations of the user's ------------------------------------------------------------------ */

/* An element is the map x -> a x + b modulo 2^32; the operation is one after the other. */
static uint64_t map_of(uint32_t a, uint32_t b)
{
    return (uint64_t)b << 32 | a;
}

static uint64_t compose(uint64_t first, uint64_t second)
{
    const uint32_t a = (uint32_t)first, b = (uint32_t)(first >> 32), c = (uint32_t)second;

    return map_of(a * c, b * c + (uint32_t)(second >> 32));
}

static void compose_all(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                        void *user)
{
    const char *x = a, *y = b;
    char *d = dst;
    uint64_t first, second;

    (void)dtype;
    (void)user;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&first, x + i * sizeof first, sizeof first);
        memcpy(&second, y + i * sizeof second, sizeof second);
        first = compose(first, second);
        memcpy(d + i * sizeof first, &first, sizeof first);
    }
}

static uint64_t composed(int size, int64_t i)
{
    uint64_t result = (uint64_t)element(TUTTI_U64, 0, i);

    for (int rank = 1; rank < size; rank++)
        result = compose(result, (uint64_t)element(TUTTI_U64, rank, i));
    return result;
}

static void check_composed(const void *at, int size, int64_t first, int64_t count)
{
    uint64_t got;

    for (int64_t i = 0; i < count; i++) {
        memcpy(&got, (const char *)at + (size_t)i * sizeof got, sizeof got);
        if (got != composed(size, first + i)) {
            check_eq(got, composed(size, first + i));
            return;
        }
    }
}

static void compose_everywhere(tutti_group *world, int rank, int size, tutti_reduce_op op,
                               int64_t count)
{
    const int root = size - 1;
    int64_t shape, out_shape;
    tutti_tensor in = tutti_tensor_1d(input, TUTTI_U64, &shape, count);
    tutti_tensor out = tutti_tensor_1d(output, TUTTI_U64, &out_shape, count);

    fill(TUTTI_U64, rank, count);
    require_ok(tutti_all_reduce_into(world, &in, &out, op, NULL, NULL));
    check_composed(output, size, 0, count);
    require_ok(tutti_reduce(world, &in, op, root, NULL, NULL));
    if (rank == root)
        check_composed(input, size, 0, count);
    shape *= size;
    fill(TUTTI_U64, rank, shape);
    require_ok(tutti_reduce_scatter(world, &in, &out, op, NULL, NULL));
    check_composed(output, size, rank * count, count);
}

RANK_CASE(operands_of_an_operation_that_does_not_commute_keep_their_order)
{
    static const int64_t counts[] = {0, 1, 100, 600, 20000, 32768};
    tutti_group *world = rank_init(NULL);
    tutti_reduce_op others[MEMBERS_MAX], op;

    for (int i = 0; i < rank; i++) /* the numbers differ */
        require_ok(tutti_reduce_op_create("another", compose_all, 0, NULL, &others[i]));
    require_ok(tutti_reduce_op_create("compose", compose_all, 0, NULL, &op));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        compose_everywhere(world, rank, size, op, counts[i]);
    for (int i = 0; i < rank; i++)
        tutti_reduce_op_free(others[i]);
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

static void largest(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                    void *user)
{
    const uint32_t *x = a, *y = b;
    uint32_t *d = dst;

    (void)dtype;
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

/* Freed while it runs; and made again, with other plans of the same words in the group. */
RANK_CASE(an_operation_that_commutes_may_be_freed_at_once)
{
    enum { CALLS = 12, COUNT = 50000 };
    tutti_group *world = rank_init(NULL);
    static uint32_t vectors[CALLS][COUNT];
    int64_t shapes[CALLS];
    tutti_work *works[CALLS];

    for (int k = 0; k < CALLS; k++) {
        const int64_t count = k % 3 ? COUNT : 5;
        tutti_tensor t = tutti_tensor_1d(vectors[k], TUTTI_U32, &shapes[k], count);
        tutti_reduce_op op;

        for (int64_t i = 0; i < count; i++)
            vectors[k][i] = (uint32_t)((i * 7 + rank * 11 + k) % 97);
        require_ok(
            tutti_reduce_op_create("largest", largest, TUTTI_REDUCE_OP_COMMUTATIVE, NULL, &op));
        require_ok(tutti_all_reduce(world, &t, op, NULL, &works[k]));
        tutti_reduce_op_free(op);
    }
    for (int k = 0; k < CALLS; k++) {
        require_ok(tutti_work_wait(works[k], 0));
        tutti_work_free(works[k]);
        for (int64_t i = 0; i < shapes[k]; i++) {
            uint32_t want = 0;

            for (int r = 0; r < size; r++) {
                const uint32_t x = (uint32_t)((i * 7 + r * 11 + k) % 97);

                want = x > want ? x : want;
            }
            if (vectors[k][i] != want) {
                check_eq(vectors[k][i], want);
                break;
            }
        }
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(operations_of_different_names_are_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    uint32_t x = 1;
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&x, TUTTI_U32, &shape, 1);
    tutti_reduce_op op;

    require_ok(tutti_reduce_op_create(rank == 1 ? "larger" : "largest", largest, 0, NULL, &op));
    tutti_status status = tutti_all_reduce(world, &t, op, NULL, NULL);
    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    check_eq(status, TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "1 x u32, user op ");
    tutti_reduce_op_free(op);
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

/* ---- PREMUL_SUM -------------------------------------------------------------------------------- */

/* Small whole numbers: every order of summing is exact. */
static int32_t small(int rank, int64_t i)
{
    return (int32_t)((rank * 3 + i) % 5);
}

static void fill_small(int rank, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ((float *)(void *)input)[i] = (float)small(rank, i);
}

/* Rank r's factor of element i: its own, or with `each` one of the element, too. */
static int32_t factor_of(int rank, int64_t i, bool each)
{
    return rank + 1 + (each ? (int32_t)(i % 3) : 0);
}

static void check_products(const void *at, int size, int64_t first, int64_t count, bool each)
{
    const float *got = at;

    for (int64_t i = 0; i < count; i++) {
        int32_t want = 0;

        for (int rank = 0; rank < size; rank++)
            want += factor_of(rank, first + i, each) * small(rank, first + i);
        if (got[i] != (float)want) {
            check_eq(got[i], want);
            return;
        }
    }
}

static tutti_reduce_op premul(int rank, int64_t count, bool each)
{
    float *factors = malloc((size_t)(each ? count : 1) * sizeof *factors);
    int64_t shape;
    tutti_reduce_op op = -1;

    require(factors != NULL);
    for (int64_t i = 0; i < (each ? count : 1); i++)
        factors[i] = (float)factor_of(rank, i, each);
    tutti_tensor factor = tutti_tensor_1d(factors, TUTTI_F32, &shape, each ? count : 1);
    require_ok(tutti_reduce_op_premul(&factor, &op));
    free(factors);
    return op;
}

static void multiply_everywhere(tutti_group *world, int rank, int size, int64_t count, bool each)
{
    int64_t shape, out_shape;
    tutti_tensor in = tutti_tensor_1d(input, TUTTI_F32, &shape, count);
    tutti_tensor out = tutti_tensor_1d(output, TUTTI_F32, &out_shape, count);
    tutti_reduce_op op = premul(rank, count, each);

    fill_small(rank, count);
    require_ok(tutti_all_reduce_into(world, &in, &out, op, NULL, NULL));
    check_products(output, size, 0, count, each);
    require_ok(tutti_reduce(world, &in, op, 0, NULL, NULL));
    if (rank == 0)
        check_products(input, size, 0, count, each);
    else if (count > 3)
        check_eq(((float *)(void *)input)[3], small(rank, 3)); /* an input is left as it was */
    tutti_reduce_op_free(op);

    shape *= size;
    op = premul(rank, shape, each);
    fill_small(rank, shape);
    require_ok(tutti_reduce_scatter(world, &in, &out, op, NULL, NULL));
    check_products(output, size, rank * count, count, each);
    tutti_reduce_op_free(op);
}

RANK_CASE(each_member_multiplies_with_its_own_factor)
{
    tutti_group *world = rank_init(NULL);
    float x = 1;
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&x, TUTTI_F32, &shape, 1);
    tutti_reduce_op op = premul(rank, 2, true);

    check_status(tutti_all_reduce(world, &t, op, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the factor of premul_sum has 2 elements");
    check_status(tutti_all_reduce(world, &t, TUTTI_PREMUL_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    tutti_reduce_op_free(op);
    check_status(tutti_all_reduce(world, &t, op, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "was freed");

    for (int each = 0; each < 2; each++) {
        multiply_everywhere(world, rank, size, 4, each);
        multiply_everywhere(world, rank, size, 700, each);
        multiply_everywhere(world, rank, size, 30000, each);
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- bools ------------------------------------------------------------------------------------------ */

/* What the bytes that one member has, and the others have as 0, become. */
static void check_bools(const unsigned char *at, const unsigned char *own, int64_t count,
                        bool is_true, const char *operation, tutti_reduce_op op)
{
    for (int64_t i = 0; i < count; i++)
        if (at[i] != (is_true && own[i])) {
            check(!"a bool of 0 or 1");
            rank_value("bool", "%s of %lld, %s, element %lld: %d", operation, (long long)count,
                       tutti_reduce_op_name(op), (long long)i, at[i]);
            return;
        }
}

static void reduce_bools(tutti_group *group, tutti_reduce_op op, int64_t count,
                         const tutti_options *options)
{
    static const unsigned char bytes[] = {7, 0, 128, 1, 255};
    const int members = (int)tutti_group_size(group), me = (int)tutti_group_rank(group);
    const bool all = op == TUTTI_PRODUCT || op == TUTTI_MIN || op == TUTTI_BAND;
    const bool is_true = members == 1 || !all;
    int64_t shapes[3];
    tutti_tensor in = tutti_tensor_1d(input, TUTTI_BOOL, &shapes[0], count);
    tutti_tensor out = tutti_tensor_1d(output, TUTTI_BOOL, &shapes[1], count);
    tutti_tensor block = tutti_tensor_1d(output, TUTTI_BOOL, &shapes[2], count / members);
    const int64_t first = me * (count / members);
    unsigned char *own = malloc((size_t)count);

    require(own);
    for (int64_t i = 0; i < count; i++)
        own[i] = bytes[i % (int64_t)sizeof bytes];
    memcpy(input, own, (size_t)count);
    if (me)
        memset(input, 0, (size_t)count);
    require_ok(tutti_all_reduce_into(group, &in, &out, op, options, NULL));
    check_bools(output, own, count, is_true, "all_reduce_into", op);
    memset(output, 9, (size_t)count);
    require_ok(tutti_reduce_into(group, &in, &out, op, 0, options, NULL));
    if (!me)
        check_bools(output, own, count, is_true, "reduce_into", op);
    memset(output, 9, (size_t)count);
    require_ok(tutti_reduce_scatter(group, &in, &block, op, options, NULL));
    check_bools(output, own + first, count / members, is_true, "reduce_scatter", op);
    require_ok(tutti_all_reduce(group, &in, op, options, NULL));
    check_bools(input, own, count, is_true, "all_reduce", op);
    free(own);
}

/* A bucket without elements, and its factor with one for each of them. */
RANK_CASE(an_empty_input_takes_an_empty_factor)
{
    tutti_group *world = rank_init(NULL);
    int64_t none, one;
    tutti_tensor empty = tutti_tensor_1d(NULL, TUTTI_F32, &none, 0);
    tutti_tensor full = tutti_tensor_1d(input, TUTTI_F32, &one, 1);
    tutti_reduce_op op;

    require_ok(tutti_reduce_op_premul(&empty, &op));
    check_ok(tutti_all_reduce(world, &empty, op, NULL, NULL));
    check_ok(tutti_reduce_scatter(world, &empty, &empty, op, NULL, NULL));
    check_status(tutti_all_reduce(world, &full, op, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "has 0 elements and the input 1");
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(bools_are_0_or_1_in_a_group_of_one_too)
{
    tutti_group *world = rank_init(NULL), *alone;
    tutti_options fixed = TUTTI_OPTIONS_INIT;

    fixed.flags = TUTTI_FIXED_ORDER;
    require_ok(tutti_group_split(world, rank, 0, NULL, &alone));
    for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
        for (int64_t count = 3; op != TUTTI_AVG && count < 40000; count *= 100)
            for (int i = 0; i < 2; i++) {
                reduce_bools(alone, op, count, i ? &fixed : NULL);
                reduce_bools(world, op, count, i ? &fixed : NULL);
            }
    check_ok(tutti_group_destroy(alone));
    check_ok(tutti_group_destroy(world));
}
