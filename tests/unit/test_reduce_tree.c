/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed order, compared with the tree as a recursion over one element at a time. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/error.h"
#include "reduce/op.h"
#include "reduce/tree.h"
#include "reduce_reference.h"

enum { MAX_VECTORS = 70, MAX_COUNT = 1100, MAX_BYTES = MAX_COUNT * REFERENCE_SIZE_MAX };

static unsigned char vectors[MAX_VECTORS][MAX_BYTES + 8], apart[MAX_BYTES + 8];

static uint64_t seed = 7;

static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static const tutti_dtype dtypes[] = {
#define ENTRY(NAME, name, code, bits) TUTTI_##NAME,
    TUTTI_DTYPE_LIST(ENTRY)
#undef ENTRY
};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* Floats whose sums are rounded, of moderate size. */
static reference_bits random_element(tutti_dtype dtype)
{
    const double x = (double)(int64_t)random_bits() * 0x1p-62, y = (double)random_bits() * 0x1p-63;

    if (reference_is_complex(dtype))
        return reference_complex(dtype, x, y);
    if (reference_is_float(dtype))
        return reference_encode(dtype, x);
    return reference_wrap(dtype, (__int128)random_bits());
}

static void fill(tutti_dtype dtype, int n, size_t count)
{
    const size_t size = tutti_dtype_size(dtype);

    for (int v = 0; v < n; v++)
        for (size_t i = 0; i < count; i++) {
            const reference_bits element = random_element(dtype);

            memcpy(vectors[v] + i * size, &element, size);
        }
}

static int left_of(int n)
{
    int left = 1;

    while (2 * left < n)
        left *= 2;
    return left;
}

/* What is widened is a partial result in f32, the others are bits. */
static double tree_of_floats(tutti_dtype dtype, tutti_reduce_op op, int first, int n, size_t at)
{
    if (n == 1)
        return reference_decode(dtype,
                                reference_load(vectors[first] + at, tutti_dtype_size(dtype)));
    return reference_float_op(dtype, op, tree_of_floats(dtype, op, first, left_of(n), at),
                              tree_of_floats(dtype, op, first + left_of(n), n - left_of(n), at));
}

static reference_bits tree_of_bits(tutti_dtype dtype, tutti_reduce_op op, int first, int n,
                                   size_t at)
{
    if (n == 1)
        return reference_load(vectors[first] + at, tutti_dtype_size(dtype));
    return reference_op(dtype, op, tree_of_bits(dtype, op, first, left_of(n), at),
                        tree_of_bits(dtype, op, first + left_of(n), n - left_of(n), at));
}

static void check(tutti_dtype dtype, tutti_reduce_op op, int n, size_t count, int dst_is)
{
    static reference_bits want[MAX_COUNT];
    const struct reduce_tree tree = reduce_tree_of(op, dtype);
    const size_t size = tutti_dtype_size(dtype);
    unsigned char *to = dst_is < n ? vectors[dst_is] : apart;
    const void *at[MAX_VECTORS];

    fill(dtype, n, count);
    for (size_t i = 0; i < count; i++)
        want[i] = reference_small(dtype) && n > 1
                      ? reference_encode(dtype, tree_of_floats(dtype, op, 0, n, i * size))
                      : tree_of_bits(dtype, op, 0, n, i * size);
    for (int v = 0; v < n; v++)
        at[v] = vectors[v];
    to[count * size] = 0x5a;
    reduce_tree(&tree, to, at, n, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(reference_same(dtype, want[i], reference_load(to + i * size, size)),
                  "%s %s of %d vectors, element %zu of %zu", tutti_dtype_name(dtype),
                  tutti_reduce_op_name(op), n, i, count);
    cr_assert_eq(to[count * size], 0x5a, "wrote beyond %zu elements", count);
}

Test(reduce_tree, any_number_of_vectors_is_reduced_in_the_order_of_the_tree, .timeout = 60)
{
    static const size_t counts[] = {0, 1, 3, 129, 513, 1099};
    int turn = 0;

    for (int d = 0; d < DTYPES; d++)
        for (tutti_reduce_op op = 0; op <= TUTTI_BXOR; op++)
            for (int n = 1; n <= MAX_VECTORS; n += n < 9 ? 1 : 17, turn++)
                if (tutti_reduce_op_meaning(op, dtypes[d]))
                    check(dtypes[d], op, n, counts[turn % 6], turn % (MAX_VECTORS + 1));
}

/* Not commutative, but associative: the first operand that is not 0. */
static void first_set(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                      void *user)
{
    const int32_t *x = a, *y = b;
    int32_t *d = dst;

    cr_assert_eq(dtype, (tutti_dtype)TUTTI_I32);
    ++*(int *)user;
    for (uint64_t i = 0; i < count; i++)
        d[i] = x[i] ? x[i] : y[i];
}

Test(reduce_op, a_users_function_gets_the_operands_in_their_order, .timeout = 10)
{
    enum { N = 7, COUNT = 1000 };
    static int32_t in[N][COUNT], out[COUNT];
    const void *at[N];
    struct reduce_choice choice;
    tutti_reduce_op number;
    int calls = 0;

    for (int v = 0; v < N; v++) {
        at[v] = in[v];
        for (int i = 0; i < COUNT; i++)
            in[v][i] = i % N <= v ? 100 * v + i % N : 0;
    }
    cr_assert_eq(tutti_reduce_op_create("first_set", first_set, 0, &calls, &number), TUTTI_OK);
    cr_assert_geq(number, 64);
    cr_assert_eq(reduce_op_take(number, TUTTI_I32, COUNT, &choice), TUTTI_OK);
    cr_expect(choice.ordered);
    tutti_reduce_op_free(number);

    const struct reduce_tree tree = reduce_tree_of_op(choice.op, TUTTI_I32);
    reduce_tree(&tree, out, at, N, COUNT);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(out[i], i % N ? 101 * (i % N) : 100, "element %d", i);
    cr_expect_eq(calls, (N - 1) * 2);
    reduce_op_release(choice.op);
}

static tutti_reduce_op made(const char *name, uint32_t flags)
{
    tutti_reduce_op op = -1;

    cr_assert_eq(tutti_reduce_op_create(name, first_set, flags, NULL, &op), TUTTI_OK);
    return op;
}

static int32_t words_of(tutti_reduce_op op)
{
    struct reduce_choice choice;

    cr_assert_eq(reduce_op_take(op, TUTTI_F32, 1, &choice), TUTTI_OK);
    reduce_op_release(choice.op);
    return choice.in_fields;
}

Test(reduce_op, members_compare_name_and_flags_and_never_the_number, .timeout = 5)
{
    const tutti_reduce_op a = made("one", 0), again = made("one", 0), b = made("two", 0);
    const tutti_reduce_op other = made("one", TUTTI_REDUCE_OP_COMMUTATIVE);
    char text[REDUCE_OP_TEXT];

    cr_expect_neq(a, again);
    cr_expect_eq(words_of(a), words_of(again));
    cr_expect_neq(words_of(a), words_of(b));
    cr_expect_neq(words_of(a), words_of(other));
    cr_expect_gt(words_of(a), 64);
    reduce_op_text(words_of(b), text);
    cr_expect_str_eq(text, "user op 'two'");
    reduce_op_text(TUTTI_MAX, text);
    cr_expect_str_eq(text, "max");
    const int32_t gone = words_of(b);
    tutti_reduce_op_free(b);
    reduce_op_text(gone, text);
    cr_expect(strstr(text, "user op 0x") == text, "%s", text);
    tutti_reduce_op_free(a);
    tutti_reduce_op_free(again);
    tutti_reduce_op_free(other);
}

Test(reduce_op, a_number_that_was_given_back_is_not_taken_for_the_next, .timeout = 5)
{
    struct reduce_choice choice;
    const tutti_reduce_op first = made("first", 0);

    tutti_reduce_op_free(first);
    tutti_reduce_op_free(first);
    tutti_reduce_op_free(-1);
    tutti_reduce_op_free(TUTTI_SUM);

    const tutti_reduce_op second = made("second", 0);

    cr_expect_neq(first, second);
    cr_expect_eq(reduce_op_take(first, TUTTI_F32, 1, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(error_message(), "was freed"));
    tutti_reduce_op_free(second);
}

Test(reduce_op, what_makes_no_sense_is_refused_in_words, .timeout = 10)
{
    static tutti_reduce_op many[1025];
    char name[65];
    tutti_reduce_op op;
    struct reduce_choice choice;
    int made_ops = 0;

    memset(name, 'x', 64);
    name[64] = 0;
    cr_expect_eq(tutti_reduce_op_create("", first_set, 0, NULL, &op), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tutti_reduce_op_create(name, first_set, 0, NULL, &op), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tutti_reduce_op_create("f", NULL, 0, NULL, &op), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(tutti_reduce_op_create("f", first_set, 2, NULL, &op), TUTTI_ERR_UNSUPPORTED);
    cr_expect_eq(reduce_op_take(TUTTI_PREMUL_SUM, TUTTI_F32, 1, &choice), TUTTI_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(error_message(), "tutti_reduce_op_premul()"));
    cr_expect_eq(reduce_op_take(TUTTI_BOR, TUTTI_F32, 1, &choice), TUTTI_ERR_UNSUPPORTED);
    while (made_ops < 1025 && !tutti_reduce_op_create("f", first_set, 0, NULL, &many[made_ops]))
        made_ops++;
    cr_expect_eq(made_ops, 1024);
    cr_expect_not_null(strstr(error_message(), "tutti_reduce_op_free()"));
    while (made_ops)
        tutti_reduce_op_free(many[--made_ops]);
}

/* ---- PREMUL_SUM ---- */

static struct reduce_op *premul_of(const tutti_tensor *factor, uint64_t count)
{
    struct reduce_choice choice = {0};
    tutti_reduce_op op = -1;

    cr_assert_eq(tutti_reduce_op_premul(factor, &op), TUTTI_OK, "%s", error_message());
    cr_assert_eq(reduce_op_take(op, factor->dtype, count, &choice), TUTTI_OK);
    cr_expect(choice.in_fields == TUTTI_PREMUL_SUM && !choice.ordered);
    cr_expect(reduce_op_is_premul(choice.op));
    tutti_reduce_op_free(op);
    return choice.op;
}

Test(reduce_op, a_factor_multiplies_every_element_of_any_dtype_that_takes_it, .timeout = 10)
{
    for (int d = 0; d < DTYPES; d++) {
        const size_t size = tutti_dtype_size(dtypes[d]);
        int64_t shape;
        tutti_tensor factor = tutti_tensor_1d(vectors[1], dtypes[d], &shape, 1);
        tutti_reduce_op op;

        if (dtypes[d] == TUTTI_BOOL) {
            cr_expect_eq(tutti_reduce_op_premul(&factor, &op), TUTTI_ERR_UNSUPPORTED);
            continue;
        }
        fill(dtypes[d], 2, MAX_COUNT);
        struct reduce_op *premul = premul_of(&factor, MAX_COUNT);
        reduce_op_multiply(premul, apart, vectors[0], 0, MAX_COUNT);
        for (size_t i = 0; i < MAX_COUNT; i++)
            cr_assert(reference_same(dtypes[d],
                                     reference_op(dtypes[d], TUTTI_PRODUCT,
                                                  reference_load(vectors[0] + i * size, size),
                                                  reference_load(vectors[1], size)),
                                     reference_load(apart + i * size, size)),
                      "%s, element %zu", tutti_dtype_name(dtypes[d]), i);
        reduce_op_release(premul);
    }
}

Test(reduce_op, a_factor_of_many_elements_meets_those_of_its_index, .timeout = 5)
{
    float factors[] = {1, -1, 2, -2, 3, -3, 4, -4}, x[] = {1, 2, 3, 4};
    int64_t shape[] = {4}, strides[] = {2};
    tutti_tensor factor = tutti_tensor_1d(factors, TUTTI_F32, shape, 4);
    struct reduce_choice choice;
    tutti_reduce_op op;

    factor.strides = strides;
    struct reduce_op *premul = premul_of(&factor, 4);
    memset(factors, 0, sizeof factors);
    reduce_op_multiply(premul, x + 2, x + 2, 2, 2);
    cr_expect(x[0] == 1 && x[1] == 2 && x[2] == 9 && x[3] == 16);
    reduce_op_release(premul);

    cr_assert_eq(tutti_reduce_op_premul(&factor, &op), TUTTI_OK);
    cr_expect_eq(reduce_op_take(op, TUTTI_F32, 5, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(error_message(), "4 elements"));
    cr_expect_eq(reduce_op_take(op, TUTTI_F64, 4, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(error_message(), "f64"));
    tutti_reduce_op_free(op);
    shape[0] = 0;
    cr_assert_eq(tutti_reduce_op_premul(&factor, &op), TUTTI_OK);
    cr_expect_eq(reduce_op_take(op, TUTTI_F32, 1, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    tutti_reduce_op_free(op);
}

Test(reduce_op, a_factor_may_be_read_only_but_not_on_an_unknown_device, .timeout = 5)
{
    const float factors[] = {2, 3};
    float x[] = {1, 2};
    int64_t shape;
    tutti_tensor factor = tutti_tensor_1d((float *)(uintptr_t)factors, TUTTI_F32, &shape, 2);
    tutti_reduce_op op;

    factor.device.type |= TUTTI_DEVICE_READ_ONLY;
    struct reduce_op *premul = premul_of(&factor, 2);
    reduce_op_multiply(premul, x, x, 0, 2);
    cr_expect(x[0] == 2 && x[1] == 6);
    reduce_op_release(premul);
    factor.device.type = 77 | TUTTI_DEVICE_READ_ONLY;
    cr_expect_eq(tutti_reduce_op_premul(&factor, &op), TUTTI_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(error_message(), "device of type 77,"));
}
