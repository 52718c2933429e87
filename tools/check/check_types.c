/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of each type, and blocks of different sizes: where an engine's own collectives most often
 * mean something else than tutti's table of reductions does. What is right is what the core makes of
 * the same call in the fixed order, which no engine is given. All values are small and whole, so that
 * every order of a sum has the same result.
 */
#include "check/check_join.h"

#include <math.h>
#include <string.h>

enum {
    COUNT = 37,
    LENGTH_MAX = (1 << 13) + 1,
    LENGTH_THOROUGH = (1 << 16) + 1,
    MEMBERS = CHECK_MEMBERS_MAX,
    NAN_AT = 5
};

/* ---- values ---------------------------------------------------------------------------------- */

/* The same numbers 0, 1, 2 and -1 (unsigned: 3) in each type. */
static const int8_t values[RANK_VALUES] = {0, 1, 2, -1};
static const uint16_t f16_values[RANK_VALUES] = {0, 0x3c00, 0x4000, 0xbc00};
static const uint16_t bf16_values[RANK_VALUES] = {0, 0x3f80, 0x4000, 0xbf80};
static const uint8_t f8e4m3fn_values[RANK_VALUES] = {0, 0x38, 0x40, 0xb8};
static const uint8_t f8e5m2_values[RANK_VALUES] = {0, 0x3c, 0x40, 0xbc};

static void write_integer(void *to, size_t bytes, int64_t value)
{
    const uint8_t byte = (uint8_t)value;
    const uint16_t two = (uint16_t)value;
    const uint32_t four = (uint32_t)value;

    memcpy(to,
           bytes == 1   ? (const void *)&byte
           : bytes == 2 ? (const void *)&two
           : bytes == 4 ? (const void *)&four
                        : (const void *)&value,
           bytes);
}

/* Complex numbers have the imaginary part 1. */
void rank_write_value(void *to, tutti_dtype dtype, int which)
{
    const float real = values[which], complex[2] = {real, 1};
    const double wide = values[which], wide_complex[2] = {wide, 1};
    const size_t bytes = tutti_dtype_size(dtype);
    const void *from = NULL;

    switch (dtype) {
    case TUTTI_F16:
        from = &f16_values[which];
        break;
    case TUTTI_BF16:
        from = &bf16_values[which];
        break;
    case TUTTI_F8E4M3FN:
        from = &f8e4m3fn_values[which];
        break;
    case TUTTI_F8E5M2:
        from = &f8e5m2_values[which];
        break;
    case TUTTI_F32:
        from = &real;
        break;
    case TUTTI_F64:
        from = &wide;
        break;
    case TUTTI_C64:
        from = complex;
        break;
    case TUTTI_C128:
        from = wide_complex;
        break;
    case TUTTI_BOOL:
        write_integer(to, bytes, which != 0);
        return;
    default:
        write_integer(to, bytes, (dtype & 0xff) == 1 ? which : values[which]);
        return;
    }
    memcpy(to, from, bytes);
}

static void fill_typed(const struct rank *rank, tutti_dtype dtype, int count, bool with_nan)
{
    const size_t bytes = tutti_dtype_size(dtype);
    const float quiet = NAN;
    const double wide_quiet = NAN;
    char *at = (char *)rank->in;

    for (int i = 0; i < count; i++)
        rank_write_value(at + (size_t)i * bytes, dtype,
                         (i * 7 + rank->rank * 3 + i / 11) % RANK_VALUES);
    if (with_nan && rank->rank == 1)
        memcpy(at + NAN_AT * bytes,
               dtype == TUTTI_F32 ? (const void *)&quiet : (const void *)&wide_quiet, bytes);
}

bool rank_is_same(tutti_dtype dtype, const void *one, const void *other)
{
    const size_t bytes = tutti_dtype_size(dtype);
    float a[2] = {0}, b[2] = {0};
    double wide_a[2] = {0}, wide_b[2] = {0};

    if (dtype == TUTTI_F32 || dtype == TUTTI_C64) {
        memcpy(a, one, bytes);
        memcpy(b, other, bytes);
        for (int i = 0; i < 2; i++) {
            wide_a[i] = (double)a[i];
            wide_b[i] = (double)b[i];
        }
    } else if (dtype == TUTTI_F64 || dtype == TUTTI_C128) {
        memcpy(wide_a, one, bytes);
        memcpy(wide_b, other, bytes);
    } else {
        return memcmp(one, other, bytes) == 0;
    }
    for (int i = 0; i < 2; i++)
        if (wide_a[i] != wide_b[i] && !(isnan(wide_a[i]) && isnan(wide_b[i])))
            return false;
    return true;
}

const char *rank_hex(const void *element, size_t bytes, char ret_text[2 * RANK_ELEMENT_MAX + 1])
{
    for (size_t i = 0; i < bytes; i++)
        g_snprintf(ret_text + 2 * i, 3, "%02x", ((const uint8_t *)element)[i]);
    return ret_text;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef tutti_status reduction_call(const struct rank *rank, const tutti_tensor *in,
                                    const tutti_tensor *out, tutti_reduce_op op,
                                    const tutti_options *options);

static tutti_status call_all_reduce(const struct rank *rank, const tutti_tensor *in,
                                    const tutti_tensor *out, tutti_reduce_op op,
                                    const tutti_options *options)
{
    return tutti_all_reduce_into(rank->world, in, out, op, options, NULL);
}

/* To rank 0. */
static tutti_status call_reduce(const struct rank *rank, const tutti_tensor *in,
                                const tutti_tensor *out, tutti_reduce_op op,
                                const tutti_options *options)
{
    return tutti_reduce_into(rank->world, in, out, op, 0, options, NULL);
}

static tutti_status call_reduce_scatter(const struct rank *rank, const tutti_tensor *in,
                                        const tutti_tensor *out, tutti_reduce_op op,
                                        const tutti_options *options)
{
    return tutti_reduce_scatter(rank->world, in, out, op, options, NULL);
}

static const struct reduction {
    const char *name;
    reduction_call *call;
    bool blocks, at_root;
} reductions[] = {
    {"all_reduce", call_all_reduce, false, false},
    {"reduce", call_reduce, false, true},
    {"reduce_scatter", call_reduce_scatter, true, false},
};

static void try_reduction(struct rank *rank, const struct reduction *reduction, tutti_dtype dtype,
                          tutti_reduce_op op, int count)
{
    static char right[LENGTH_THOROUGH * RANK_ELEMENT_MAX];
    const tutti_options fixed = {.struct_size = sizeof fixed, .flags = TUTTI_FIXED_ORDER};
    const bool with_nan = (dtype == TUTTI_F32 || dtype == TUTTI_F64) &&
                          (op == TUTTI_MIN || op == TUTTI_MAX) && !rank->wrapped;
    const size_t bytes = tutti_dtype_size(dtype);
    char is[2 * RANK_ELEMENT_MAX + 1], should[2 * RANK_ELEMENT_MAX + 1];
    const int all = reduction->blocks ? count * rank->size : count;
    int64_t shapes[3];
    const tutti_tensor in = tutti_tensor_1d(rank->in, dtype, &shapes[0], all);
    const tutti_tensor expected = tutti_tensor_1d(right, dtype, &shapes[1], count);
    const tutti_tensor out = tutti_tensor_1d(rank->out, dtype, &shapes[2], count);

    check_doing("in %s of %d %s, %s", reduction->name, count, tutti_dtype_name(dtype),
                tutti_reduce_op_name(op));
    fill_typed(rank, dtype, all, with_nan);
    rank_expect_ok(rank, reduction->call(rank, &in, &expected, op, &fixed), reduction->name);
    rank_expect_ok(rank, reduction->call(rank, &in, &out, op, NULL), reduction->name);
    for (size_t i = 0; (!reduction->at_root || rank->rank == 0) && i < (size_t)count; i++) {
        const void *one = (const char *)rank->out + i * bytes, *other = right + i * bytes;

        if (!rank_is_same(dtype, one, other))
            check_fails("rank %d: %s of %d %s, %s (%s): element %zu has the bytes %s, and in the "
                        "fixed order, which the core makes itself, %s",
                        rank->rank, reduction->name, count, tutti_dtype_name(dtype),
                        tutti_reduce_op_name(op), tutti_reduce_op_meaning(op, dtype), i,
                        rank_hex(one, bytes, is), rank_hex(other, bytes, should));
    }
}

#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
static const tutti_dtype dtypes[] = {TUTTI_DTYPE_LIST(DTYPE)};
#undef DTYPE

void check_rank_types(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++)
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
            for (size_t r = 0;
                 tutti_reduce_op_meaning(op, dtypes[d]) && r < G_N_ELEMENTS(reductions); r++)
                try_reduction(&rank, &reductions[r], dtypes[d], op, COUNT);
    rank_leave(&rank);
}

/* One operation of each type, with lengths on both sides of where a kernel, a message or an algorithm changes. */
static void try_lengths(struct rank *rank, tutti_dtype dtype, bool thorough)
{
    const int most = thorough ? LENGTH_THOROUGH : LENGTH_MAX;
    tutti_reduce_op op = TUTTI_SUM;

    while (!tutti_reduce_op_meaning(op, dtype) && op < TUTTI_BXOR)
        op++;
    for (int power = 1; power < most; power *= 2)
        for (int count = MAX(power - 1, 1); count <= power + 1; count++)
            for (size_t r = 0; r < (thorough ? 2 : 1); r++)
                try_reduction(rank, &reductions[r], dtype, op, count);
}

void check_rank_lengths(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++)
        try_lengths(&rank, dtypes[d], member->subject->thorough);
    rank_leave(&rank);
}

/* ---- blocks of different sizes --------------------------------------------------------------- */

static const int64_t scales[] = {1, 100, 4000};

/* The length of the block from `from` to `to`; 0 for some. */
static int64_t block_count(int from, int to, int64_t scale)
{
    return (from + 2 * to) % 5 * scale;
}

/* The lengths that each rank contributes, or gets. */
static void side_counts(const struct rank *rank, int64_t scale, int64_t ret_counts[MEMBERS],
                        int64_t *ret_before, int64_t *ret_total)
{
    *ret_before = *ret_total = 0;
    for (int r = 0; r < rank->size; r++) {
        ret_counts[r] = block_count(r, 1, scale);
        *ret_before += r < rank->rank ? ret_counts[r] : 0;
        *ret_total += ret_counts[r];
    }
}

static void expect_element(const struct rank *rank, const char *what, int64_t scale, int64_t i,
                           float right)
{
    if (rank->out[i] != right)
        check_fails("rank %d: %s with blocks of 0 to %lld floats: element %lld is %g instead of %g",
                    rank->rank, what, 4 * (long long)scale, (long long)i, (double)rank->out[i],
                    (double)right);
}

/* Every rank's block behind the other. */
static void expect_gathered(const struct rank *rank, const char *what, int64_t scale,
                            const int64_t counts[MEMBERS])
{
    int64_t at = 0;

    for (int r = 0; r < rank->size; r++)
        for (int64_t i = 0; i < counts[r]; i++)
            expect_element(rank, what, scale, at++, rank_value(r, i));
}

static void try_gathers(struct rank *rank, int64_t scale, int root)
{
    int64_t counts[MEMBERS], before, total, shapes[2];

    side_counts(rank, scale, counts, &before, &total);
    const tutti_tensor in = rank_floats(rank->in, &shapes[0], counts[rank->rank]);
    const tutti_tensor out = rank_floats(rank->out, &shapes[1], total);

    check_doing("in all_gather_v and gather_v with blocks of 0 to %lld floats",
                4 * (long long)scale);
    rank_fill(rank->in, rank->rank, counts[rank->rank]);
    rank_expect_ok(rank, tutti_all_gather_v(rank->world, &in, &out, counts, NULL, NULL, NULL),
                   "tutti_all_gather_v");
    expect_gathered(rank, "all_gather_v", scale, counts);
    memset(rank->out, 0, (size_t)total * sizeof *rank->out);
    rank_expect_ok(rank, tutti_gather_v(rank->world, &in, &out, counts, NULL, root, NULL, NULL),
                   "tutti_gather_v");
    if (rank->rank == root)
        expect_gathered(rank, "gather_v", scale, counts);
}

static void try_scatters(struct rank *rank, int64_t scale, int root)
{
    int64_t counts[MEMBERS], before, total, shapes[2];

    side_counts(rank, scale, counts, &before, &total);
    const tutti_tensor in = rank_floats(rank->in, &shapes[0], total);
    const tutti_tensor out = rank_floats(rank->out, &shapes[1], counts[rank->rank]);

    check_doing("in scatter_v and reduce_scatter_v with blocks of 0 to %lld floats",
                4 * (long long)scale);
    rank_fill(rank->in, rank->rank, total);
    rank_expect_ok(rank, tutti_scatter_v(rank->world, &in, counts, NULL, &out, root, NULL, NULL),
                   "tutti_scatter_v");
    for (int64_t i = 0; i < counts[rank->rank]; i++)
        expect_element(rank, "scatter_v", scale, i, rank_value(root, before + i));
    rank_expect_ok(
        rank, tutti_reduce_scatter_v(rank->world, &in, counts, NULL, &out, TUTTI_SUM, NULL, NULL),
        "tutti_reduce_scatter_v");
    for (int64_t i = 0; i < counts[rank->rank]; i++)
        expect_element(rank, "reduce_scatter_v", scale, i, rank_sum(rank, before + i));
}

static void try_exchange(struct rank *rank, int64_t scale)
{
    int64_t in_counts[MEMBERS], out_counts[MEMBERS], in_total = 0, out_total = 0, shapes[2];

    for (int r = 0; r < rank->size; r++) {
        in_total += in_counts[r] = block_count(rank->rank, r, scale);
        out_total += out_counts[r] = block_count(r, rank->rank, scale);
    }
    const tutti_tensor in = rank_floats(rank->in, &shapes[0], in_total);
    const tutti_tensor out = rank_floats(rank->out, &shapes[1], out_total);

    check_doing("in all_to_all_v with blocks of 0 to %lld floats", 4 * (long long)scale);
    rank_fill(rank->in, rank->rank, in_total);
    rank_expect_ok(
        rank,
        tutti_all_to_all_v(rank->world, &in, in_counts, NULL, &out, out_counts, NULL, NULL, NULL),
        "tutti_all_to_all_v");
    for (int64_t at = 0, r = 0; r < rank->size; r++) {
        int64_t before = 0;

        for (int to = 0; to < rank->rank; to++)
            before += block_count((int)r, to, scale);
        for (int64_t i = 0; i < out_counts[r]; i++)
            expect_element(rank, "all_to_all_v", scale, at++, rank_value((int)r, before + i));
    }
}

void check_rank_uneven(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    for (size_t k = 0; k < G_N_ELEMENTS(scales); k++)
        for (int root = 0; root < rank.size; root++) {
            try_gathers(&rank, scales[k], root);
            try_scatters(&rank, scales[k], root);
            try_exchange(&rank, scales[k]);
        }
    rank_leave(&rank);
}
