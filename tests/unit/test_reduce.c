/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every table of kernels that this CPU runs is tested, not only the one that is picked. Failures
 * print dtype, op, instruction set, count and index.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/error.h"
#include "reduce/kernels.h"
#include "reduce_reference.h"

enum { MAX_COUNT = 1031, MAX_BYTES = MAX_COUNT * REFERENCE_SIZE_MAX, SLACK = 64, MAX_VECTORS = 9 };

typedef unsigned char memory[MAX_BYTES + 2 * SLACK];

static const tutti_dtype dtypes[REDUCE_DTYPES] = {
#define ENTRY(NAME, name, code, bits) [REDUCE_##NAME] = TUTTI_##NAME,
    TUTTI_DTYPE_LIST(ENTRY)
#undef ENTRY
};

static uint64_t seed = 20250101;

static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Any bits, numbers near 1, and the rare ones that go wrong: NaN, infinite, zero, extreme. */
static reference_bits random_element(tutti_dtype dtype, bool nan_allowed)
{
    static const double corners[] = {0., -0., 1., -1., INFINITY, -INFINITY, 65504., 0x1p-24};
    const uint64_t bits = random_bits();
    reference_bits value = reference_wrap(dtype, (__int128)(int64_t)bits);

    if (reference_is_complex(dtype))
        return random_element(reference_part(dtype), nan_allowed) |
               random_element(reference_part(dtype), nan_allowed) << 4 * tutti_dtype_size(dtype);

    if (reference_is_float(dtype) && bits % 4 == 1)
        value = reference_encode(dtype, (double)(int64_t)random_bits() * 0x1p-62);
    if (reference_is_float(dtype) && bits % 16 == 2)
        value = reference_encode(dtype, corners[bits >> 32 & 7]);
    if (!nan_allowed && reference_is_nan(dtype, value))
        value = reference_encode(dtype, 1.);
    return value;
}

static void fill(void *at, tutti_dtype dtype, size_t count, bool nan_allowed)
{
    const size_t size = tutti_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        const reference_bits element = random_element(dtype, nan_allowed);

        memcpy((char *)at + i * size, &element, size);
    }
}

static void expect_same(const struct reduce_kernels *table, tutti_dtype dtype, tutti_reduce_op op,
                        size_t count, size_t i, reference_bits want, reference_bits got)
{
    if (!reference_same(dtype, want, got))
        cr_assert_fail("%s %s %s, element %zu of %zu: %llx:%016llx instead of %llx:%016llx",
                       table->isa, tutti_dtype_name(dtype), tutti_reduce_op_name(op), i, count,
                       (unsigned long long)(got >> 64), (unsigned long long)got,
                       (unsigned long long)(want >> 64), (unsigned long long)want);
}

struct place {
    size_t dst, a, b;
    int same; /* 1: dst is a, 2: dst is b */
};

static const struct place places[] = {
    {0, 0, 0, 0}, {1, 2, 3, 0}, {8, 4, 60, 0}, {32, 32, 16, 1}, {5, 5, 24, 1}, {9, 1, 9, 2},
};

static bool takes(enum reduce_dtype row, tutti_reduce_op op)
{
    return tutti_reduce_op_meaning(op, dtypes[row]) != NULL;
}

static void check_pair(const struct reduce_kernels *table, enum reduce_dtype row,
                       tutti_reduce_op op, size_t count, const struct place *place)
{
    static _Alignas(64) memory dst, a, b, before_a, before_b;
    const tutti_dtype dtype = dtypes[row];
    const size_t size = tutti_dtype_size(dtype);
    unsigned char *x = a + place->a, *y = b + place->b;
    unsigned char *to = place->same == 1 ? x : place->same == 2 ? y : dst + SLACK + place->dst;

    if (!takes(row, op))
        return;
    fill(x, dtype, count, true);
    fill(y, dtype, count, true);
    memcpy(before_a, x, count * size);
    memcpy(before_b, y, count * size);
    memset(dst, 0xa5, sizeof dst);
    to[count * size] = 0x5a;
    table->pair[row][op](to, x, y, count);
    for (size_t i = 0; i < count; i++)
        expect_same(table, dtype, op, count, i,
                    reference_op(dtype, op, reference_load(before_a + i * size, size),
                                 reference_load(before_b + i * size, size)),
                    reference_load(to + i * size, size));
    cr_assert_eq(to[count * size], 0x5a, "%s %s wrote beyond %zu elements", table->isa,
                 tutti_dtype_name(dtype), count);
    cr_assert(place->same || to[-1] == 0xa5, "wrote before the first element");
}

Test(reduce, every_kernel_agrees_with_the_reference_at_any_count_and_alignment, .timeout = 60)
{
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int t = 0; t < n; t++)
        for (int row = 0; row < REDUCE_DTYPES; row++)
            for (tutti_reduce_op op = 0; op < REDUCE_OPS; op++)
                for (size_t count = 0; count <= MAX_COUNT; count += count == 67 ? 932 : 1)
                    check_pair(tables[t], (enum reduce_dtype)row, op, count,
                               &places[count % (sizeof places / sizeof places[0])]);
}

/* Every value with every other. */
Test(reduce, floats_of_eight_bits_agree_with_the_reference_on_all_values, .timeout = 60)
{
    static uint8_t x[65536], y[65536], result[65536];
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int i = 0; i < 65536; i++) {
        x[i] = (uint8_t)i;
        y[i] = (uint8_t)(i >> 8);
    }
    for (int t = 0; t < n; t++)
        for (int row = REDUCE_F8E4M3FN; row <= REDUCE_F8E5M2; row++)
            for (tutti_reduce_op op = 0; op <= TUTTI_MAX; op++) {
                tables[t]->pair[row][op](result, x, y, 65536);
                for (size_t i = 0; i < 65536; i++)
                    expect_same(tables[t], dtypes[row], op, 65536, i,
                                reference_op(dtypes[row], op, x[i], y[i]), result[i]);
            }
}

Test(reduce, floats_of_eight_bits_saturate, .timeout = 5)
{
    uint8_t e4m3fn[] = {0x7e, 0xfe, 0x78, 0x7f}, e5m2[] = {0x7b, 0xfb, 0x7c, 0x7d}; /* 448 … */

    reduce_kernel(TUTTI_F8E4M3FN, TUTTI_SUM)(e4m3fn, e4m3fn, e4m3fn, 4);
    cr_expect(e4m3fn[0] == 0x7e && e4m3fn[1] == 0xfe && e4m3fn[2] == 0x7e && e4m3fn[3] == 0x7f);
    reduce_kernel(TUTTI_F8E5M2, TUTTI_SUM)(e5m2, e5m2, e5m2, 4);
    cr_expect(e5m2[0] == 0x7b && e5m2[1] == 0xfb && e5m2[2] == 0x7c && e5m2[3] == 0x7f);
}

/* All 2^16 values of a half type: x * 1 and x + -0 are x, but for the NaNs that become quiet. */
Test(reduce, half_types_survive_the_way_to_f32_and_back, .timeout = 30)
{
    static uint16_t all[65536], same[65536], result[65536];
    static const struct {
        enum reduce_dtype row;
        uint16_t one, infinite, quiet;
    } halves[] = {{REDUCE_F16, 0x3c00, 0x7c00, 0x0200}, {REDUCE_BF16, 0x3f80, 0x7f80, 0x0040}};
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int t = 0; t < n; t++)
        for (int h = 0; h < 2; h++)
            for (int product = 0; product < 2; product++) {
                for (int i = 0; i < 65536; i++)
                    same[i] = product ? halves[h].one : 0x8000;
                tables[t]->pair[halves[h].row][product ? TUTTI_PRODUCT : TUTTI_SUM](result, all,
                                                                                    same, 65536);
                for (int i = 0; i < 65536; i++) {
                    const bool nan = (i & 0x7fff) > halves[h].infinite;

                    cr_assert_eq(result[i], i | (nan ? halves[h].quiet : 0), "%s %s %#x: %#x",
                                 tables[t]->isa, tutti_dtype_name(dtypes[halves[h].row]), i,
                                 result[i]);
                }
            }
}

/* All values with a few partners that make ties, overflow, cancellation and subnormal results. */
Test(reduce, half_types_round_to_nearest_even_once, .timeout = 60)
{
    static const uint16_t partners[] = {0x0001, 0x03ff, 0x0400, 0x1001, 0x3bff, 0x3c01,
                                        0x5555, 0x7bff, 0x8001, 0xbc01, 0xfbff, 0x7f7f};
    static uint16_t all[65536], partner[65536], result[65536];
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t p = 0; p < sizeof partners / sizeof partners[0]; p++) {
        for (int i = 0; i < 65536; i++)
            partner[i] = partners[p];
        for (int row = REDUCE_F16; row <= REDUCE_BF16; row++)
            for (int t = 0; t < n; t++) {
                const tutti_reduce_op op = p % 2 ? TUTTI_PRODUCT : TUTTI_SUM;

                tables[t]->pair[row][op](result, all, partner, 65536);
                for (size_t i = 0; i < 65536; i++)
                    expect_same(tables[t], dtypes[row], op, 65536, i,
                                reference_op(dtypes[row], op, i, partners[p]), result[i]);
            }
    }
}

/* Rank order, partial results in f32 for the half types and in the type itself for the others. */
static reference_bits reference_many(tutti_dtype dtype, tutti_reduce_op op, memory *vectors, int n,
                                     size_t at)
{
    const size_t size = tutti_dtype_size(dtype);
    reference_bits bits = reference_load(vectors[0] + at, size);
    double partial = reference_decode(dtype, bits);

    for (int i = 1; i < n; i++) {
        const reference_bits next = reference_load(vectors[i] + at, size);

        if (reference_is_float(dtype))
            partial = reference_float_op(dtype, op, partial, reference_decode(dtype, next));
        else
            bits = reference_op(dtype, op, bits, next);
    }
    return reference_is_float(dtype) && n > 1 ? reference_encode(dtype, partial) : bits;
}

static void check_many(const struct reduce_kernels *table, enum reduce_dtype row,
                       tutti_reduce_op op, int n, size_t count, int dst_is)
{
    static memory vectors[MAX_VECTORS], dst;
    static reference_bits want[MAX_COUNT];
    const void *at[MAX_VECTORS];
    const size_t size = tutti_dtype_size(dtypes[row]);
    unsigned char *to = dst_is < n ? vectors[dst_is] : dst + 3;

    if (!takes(row, op))
        return;
    for (int i = 0; i < n; i++) {
        fill(vectors[i], dtypes[row], count, i == 0);
        at[i] = vectors[i];
    }
    for (size_t i = 0; i < count; i++)
        want[i] = reference_many(dtypes[row], op, vectors, n, i * size);
    to[count * size] = 0x5a;
    table->many[row][op](to, at, n, count);
    for (size_t i = 0; i < count; i++) {
        const reference_bits got = reference_load(to + i * size, size);

        if (n > 1 || got != want[i]) /* one vector is copied, a NaN that is not quiet as well */
            expect_same(table, dtypes[row], op, count, i, want[i], got);
    }
    cr_assert_eq(to[count * size], 0x5a, "wrote beyond %zu elements", count);
}

Test(reduce, many_vectors_fold_in_rank_order_with_one_rounding, .timeout = 60)
{
    static const size_t counts[] = {0, 1, 2, 7, 33, 64, 513, 1024, 1025, MAX_COUNT};
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int usable = reduce_kernels_usable(tables);
    int turn = 0;

    for (int t = 0; t < usable; t++)
        for (int row = 0; row < REDUCE_DTYPES; row++)
            for (tutti_reduce_op op = 0; op < REDUCE_OPS; op++)
                for (int n = 1; n <= MAX_VECTORS; n++)
                    for (int i = 0; i < 3; i++, turn++)
                        check_many(tables[t], (enum reduce_dtype)row, op, n,
                                   counts[turn % (int)(sizeof counts / sizeof counts[0])],
                                   turn % (MAX_VECTORS + 1));
}

/* b has NaNs only where a has none: which of two payloads a sum keeps is not promised. */
static void fill_two(unsigned char *a, unsigned char *b, tutti_dtype dtype, size_t count)
{
    const size_t size = tutti_dtype_size(dtype);
    const reference_bits one = reference_is_float(dtype) ? reference_encode(dtype, 1.) : 1;
    const bool nan_allowed = !reference_is_complex(dtype); /* one makes others there */

    fill(a, dtype, count, nan_allowed);
    fill(b, dtype, count, nan_allowed);
    for (size_t i = 0; i < count; i++)
        if (reference_is_nan(dtype, reference_load(a + i * size, size)))
            memcpy(b + i * size, &one, size);
}

Test(reduce, results_are_the_same_bits_on_every_isa_alignment_and_split, .timeout = 60)
{
    static memory a, b, whole, other, shifted_a, shifted_b;
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int row = 0; row < REDUCE_DTYPES; row++)
        for (tutti_reduce_op op = 0; op < REDUCE_OPS; op++)
            for (int round = 0; round < 8; round++) {
                const size_t size = tutti_dtype_size(dtypes[row]), bytes = MAX_COUNT * size;
                const size_t shift = random_bits() % SLACK;

                if (!takes((enum reduce_dtype)row, op))
                    continue;
                fill_two(a, b, dtypes[row], MAX_COUNT);
                memcpy(shifted_a + shift, a, bytes);
                memcpy(shifted_b + SLACK - shift, b, bytes);
                tables[0]->pair[row][op](whole, a, b, MAX_COUNT);
                for (int t = 0; t < n; t++) {
                    for (size_t at = 0, part; at < MAX_COUNT; at += part) {
                        part = random_bits() % 100;
                        part = part > MAX_COUNT - at ? MAX_COUNT - at : part;
                        tables[t]->pair[row][op](other + shift / 2 + at * size,
                                                 shifted_a + shift + at * size,
                                                 shifted_b + SLACK - shift + at * size, part);
                    }
                    cr_assert_arr_eq(whole, other + shift / 2, bytes, "%s against %s: %s %s",
                                     tables[t]->isa, tables[0]->isa, tutti_dtype_name(dtypes[row]),
                                     tutti_reduce_op_name(op));
                }
            }
}

Test(reduce, an_average_divides_once_and_truncates_integers_toward_zero, .timeout = 60)
{
    static const uint32_t members[] = {1, 2, 3, 7, 8, 1000, 65536, UINT32_MAX};
    static memory data, before;
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int t = 0; t < n; t++)
        for (int row = 0; row < REDUCE_DTYPES; row++)
            for (size_t m = 0;
                 takes((enum reduce_dtype)row, TUTTI_AVG) && m < sizeof members / sizeof members[0];
                 m++) {
                const size_t size = tutti_dtype_size(dtypes[row]);

                fill(data + m, dtypes[row], MAX_COUNT, true);
                memcpy(before, data + m, MAX_COUNT * size);
                tables[t]->average[row](data + m, MAX_COUNT, members[m]);
                for (size_t i = 0; i < MAX_COUNT; i++)
                    expect_same(tables[t], dtypes[row], TUTTI_AVG, MAX_COUNT, i,
                                reference_average(dtypes[row],
                                                  reference_load(before + i * size, size),
                                                  members[m]),
                                reference_load(data + m + i * size, size));
            }

    int32_t i32[] = {-7, 7, INT32_MIN, INT32_MAX};
    reduce_finish(TUTTI_I32, TUTTI_AVG, 2)(i32, 4, 2);
    cr_expect(i32[0] == -3 && i32[1] == 3 && i32[2] == INT32_MIN / 2 && i32[3] == INT32_MAX / 2);
}

static void check_copy(void (*copy)(void *, const void *, size_t), size_t to, size_t from,
                       size_t bytes)
{
    static memory src, dst;

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (unsigned char)random_bits();
    memset(dst, 0xa5, sizeof dst);
    copy(dst + to, src + from, bytes);
    cr_assert_arr_eq(dst + to, src + from, bytes, "%zu bytes from %zu to %zu", bytes, from, to);
    for (size_t i = 0; i < sizeof dst; i++)
        cr_assert(dst[i] == 0xa5 || (i >= to && i < to + bytes), "byte %zu outside was written", i);
    copy(dst + to, dst + to, bytes); /* onto itself */
    cr_assert_arr_eq(dst + to, src + from, bytes);
}

Test(reduce, copies_move_every_byte_and_no_other, .timeout = 60)
{
    static const size_t sizes[] = {0,    1,    15,   63,   64,   65,   127,  129,
                                   2047, 2048, 2049, 2111, 2112, 4096, 8191, MAX_BYTES};
    const struct reduce_kernels *tables[REDUCE_ISAS];
    const int n = reduce_kernels_usable(tables);

    for (int t = 0; t < n; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t to = 0; to <= 64; to += to < 2 ? 1 : 31)
                check_copy(tables[t]->copy, to, 64 - to, sizes[i]);
}

/* What the empty cells of the table are is said here once more, in the words of the issue. */
static bool should_take(tutti_dtype dtype, tutti_reduce_op op)
{
    const bool bits = op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR;

    if (dtype == TUTTI_BOOL)
        return op != TUTTI_AVG;
    if (reference_is_complex(dtype))
        return op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PRODUCT;
    return !bits || !reference_is_float(dtype);
}

Test(reduce, what_has_a_meaning_has_a_kernel_and_nothing_else_has, .timeout = 5)
{
    for (int row = 0; row < REDUCE_DTYPES; row++)
        for (tutti_reduce_op op = 0; op < REDUCE_OPS; op++) {
            const bool taken = takes((enum reduce_dtype)row, op);

            cr_expect_eq(taken, should_take(dtypes[row], op), "%s of %s", tutti_reduce_op_name(op),
                         tutti_dtype_name(dtypes[row]));
            cr_expect_eq(reduce_check(op, dtypes[row]), taken ? TUTTI_OK : TUTTI_ERR_UNSUPPORTED);
            cr_expect_eq(reduce_kernel(dtypes[row], op) != NULL, taken);
            cr_expect_eq(reduce_many(dtypes[row], op) != NULL, taken);
            cr_expect_eq(reduce_finish(dtypes[row], op, 2) != NULL, taken && op == TUTTI_AVG);
            cr_expect_eq(reduce_finish(dtypes[row], op, 1) != NULL, taken && row == REDUCE_BOOL);
        }
    for (int i = 0; i < 3; i++) {
        const tutti_reduce_op op = (const tutti_reduce_op[]){-1, 63, 64}[i];

        cr_expect_null(reduce_kernel(TUTTI_F32, op));
        cr_expect_null(reduce_many(TUTTI_F32, op));
        cr_expect_eq(reduce_check(op, TUTTI_F32), TUTTI_ERR_UNSUPPORTED);
    }
    cr_expect_null(reduce_kernel(0, TUTTI_SUM));
    cr_expect_null(reduce_many(TUTTI_DTYPE(5, 32), TUTTI_SUM));
    cr_expect_null(reduce_finish(0, TUTTI_AVG, 2));
    cr_expect_eq(reduce_kernel(TUTTI_F32, TUTTI_AVG), reduce_kernel(TUTTI_F32, TUTTI_SUM));
}

Test(reduce, a_refusal_says_what_would_work, .timeout = 5)
{
    cr_expect_eq(reduce_check(TUTTI_BXOR, TUTTI_C64), TUTTI_ERR_UNSUPPORTED);
    cr_expect_str_eq(error_message(),
                     "bxor does not take c64; what takes it: sum, avg, product and "
                     "premul_sum");
}

Test(reduce, what_is_empty_does_nothing, .timeout = 5)
{
    const struct reduce_kernels *tables[REDUCE_ISAS];

    reduce_copy(tables, NULL, 0); /* an empty tensor's data */
    reduce_kernels_usable(tables);
    cr_expect_str_eq(reduce_isa(), tables[0]->isa);
}
