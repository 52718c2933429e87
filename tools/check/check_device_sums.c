/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on a device: every reduction of every type, and products with a factor. Two ranks over tcp first make
 * the same reductions in the fixed order, which the core does itself: that is what is right.
 */
#include "check/check_device.h"
#include "check/check_join.h"

#include <string.h>

enum { COUNT = 293, OPERANDS = 2, BYTES = COUNT * RANK_ELEMENT_MAX };

static const tutti_dtype dtypes[] = {
#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
};

/* One reduction and the core's result. */
struct wanted {
    tutti_dtype dtype;
    tutti_reduce_op op;
    uint8_t right[BYTES];
};

static void fill_operand(void *to, tutti_dtype dtype, int operand)
{
    for (int i = 0; i < COUNT; i++)
        rank_write_value((char *)to + (size_t)i * tutti_dtype_size(dtype), dtype,
                         (i * 7 + operand * 3 + i / 11) % RANK_VALUES);
}

/* The core's results, by the two ranks together. */
static GPtrArray *ask_core(const struct check_member *member)
{
    const tutti_options fixed = {.struct_size = sizeof fixed, .flags = TUTTI_FIXED_ORDER};
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);
    struct rank rank = rank_join_over(member, "tcp", false);

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++)
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++) {
            struct wanted *wanted = g_new0(struct wanted, 1);
            int64_t shapes[2];
            const tutti_tensor in = tutti_tensor_1d(rank.in, dtypes[d], &shapes[0], COUNT);
            const tutti_tensor out = tutti_tensor_1d(wanted->right, dtypes[d], &shapes[1], COUNT);

            g_ptr_array_add(all, wanted);
            if (!tutti_reduce_op_meaning(op, dtypes[d]))
                continue;
            wanted->dtype = dtypes[d];
            wanted->op = op;
            fill_operand(rank.in, dtypes[d], rank.rank);
            rank_expect_ok(&rank, tutti_all_reduce_into(rank.world, &in, &out, op, &fixed, NULL),
                           "all_reduce");
        }
    rank_leave(&rank);
    return all;
}

static void expect_elements(const char *what, tutti_dtype dtype, const uint8_t *is,
                            const uint8_t *should)
{
    const size_t bytes = tutti_dtype_size(dtype);
    char one[2 * RANK_ELEMENT_MAX + 1], other[2 * RANK_ELEMENT_MAX + 1];

    for (size_t i = 0; i < COUNT; i++)
        if (!rank_is_same(dtype, is + i * bytes, should + i * bytes))
            check_fails("%s of %d %s: element %zu has the bytes %s, and by the core on the host %s",
                        what, COUNT, tutti_dtype_name(dtype), i,
                        rank_hex(is + i * bytes, bytes, one),
                        rank_hex(should + i * bytes, bytes, other));
}

/* The operands lie beside each other on the device; `dst` is the first of them where `in_place`. */
static void try_reduction(const struct bench *bench, const struct wanted *wanted, uint8_t *device,
                          uint32_t flags, bool in_place)
{
    const uint64_t bytes = COUNT * tutti_dtype_size(wanted->dtype);
    uint8_t operands[OPERANDS * BYTES], result[BYTES];
    const tutti_device_reduction what = {.struct_size = sizeof what,
                                         .flags = flags,
                                         .dtype = wanted->dtype,
                                         .op = wanted->op,
                                         .dst = in_place ? device : device + OPERANDS * BYTES,
                                         .first = device,
                                         .rest = device + bytes,
                                         .stride = bytes,
                                         .count = COUNT,
                                         .operands = OPERANDS,
                                         .members = OPERANDS};

    for (int i = 0; i < OPERANDS; i++)
        fill_operand(operands + (size_t)i * bytes, wanted->dtype, i);
    bench_put(bench, device, operands, OPERANDS * bytes);
    bench_expect(bench->ops->reduce(bench->accelerator, bench->stream, &what), "reduce");
    bench_get(bench, what.dst, result, bytes);
    expect_elements(tutti_reduce_op_name(wanted->op), wanted->dtype, result, wanted->right);
}

static void refuse_reduction(const struct bench *bench, tutti_dtype dtype, tutti_reduce_op op,
                             uint8_t *device)
{
    const tutti_device_reduction what = {.struct_size = sizeof what,
                                         .dtype = dtype,
                                         .op = op,
                                         .dst = device,
                                         .first = device,
                                         .rest = device,
                                         .count = 1,
                                         .operands = OPERANDS};

    bench_forget();
    bench_expect_words("a reduction that has no meaning",
                       bench->ops->reduce(bench->accelerator, bench->stream, &what),
                       TUTTI_ERR_UNSUPPORTED);
}

void check_device_reductions(const struct check_member *member)
{
    g_autoptr(GPtrArray) all = ask_core(member);

    if (member->index)
        return;
    struct bench bench = bench_open(member->subject);
    uint8_t *device = bench_allocate(&bench, TUTTI_MEMORY_DEVICE, (OPERANDS + 1) * BYTES);

    for (guint i = 0; i < all->len; i++) {
        const tutti_reduce_op op = (tutti_reduce_op)(i % (TUTTI_BXOR + 1));
        const tutti_dtype dtype = dtypes[i / (TUTTI_BXOR + 1)];
        const struct wanted *wanted = all->pdata[i];

        check_doing("reducing %s, %s", tutti_dtype_name(dtype), tutti_reduce_op_name(op));
        if (!wanted->dtype) {
            refuse_reduction(&bench, dtype, op, device);
            continue;
        }
        try_reduction(&bench, wanted, device, 0, false);
        try_reduction(&bench, wanted, device, TUTTI_REDUCTION_FIXED_ORDER, true);
    }
    bench_release(&bench, TUTTI_MEMORY_DEVICE, device);
    bench_close(&bench);
}

/* ---- factors --------------------------------------------------------------------------------- */

/* A product with the factor must be one with a vector of it. */
static void try_factor(const struct bench *bench, tutti_dtype dtype, uint8_t *device,
                       bool on_device)
{
    const size_t element = tutti_dtype_size(dtype);
    const uint64_t bytes = COUNT * element;
    uint8_t operands[2 * BYTES], right[BYTES], is[BYTES], factor[RANK_ELEMENT_MAX];
    const tutti_device_reduction product = {.struct_size = sizeof product,
                                            .dtype = dtype,
                                            .op = TUTTI_PRODUCT,
                                            .dst = device + 2 * BYTES,
                                            .first = device,
                                            .rest = device + bytes,
                                            .count = COUNT,
                                            .operands = 2};

    rank_write_value(factor, dtype, 2);
    fill_operand(operands, dtype, 1);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(operands + bytes + i * element, factor, element);
    bench_put(bench, device, operands, 2 * bytes);
    bench_expect(bench->ops->reduce(bench->accelerator, bench->stream, &product), "reduce");
    bench_get(bench, product.dst, right, bytes);
    bench_expect(bench->ops->scale(bench->accelerator, bench->stream, dtype, device, device, COUNT,
                                   on_device ? device + bytes : factor, on_device),
                 "scale");
    memset(factor, 0xff, sizeof factor); /* it was read */
    bench_get(bench, device, is, bytes);
    expect_elements("a product with a factor", dtype, is, right);
}

void check_device_factors(const struct check_member *member)
{
    struct bench bench = bench_open(member->subject);
    uint8_t *device = bench_allocate(&bench, TUTTI_MEMORY_DEVICE, 3 * BYTES);

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
        check_doing("multiplying %s by a factor", tutti_dtype_name(dtypes[d]));
        if (!tutti_reduce_op_meaning(TUTTI_PREMUL_SUM, dtypes[d]) ||
            !tutti_reduce_op_meaning(TUTTI_PRODUCT, dtypes[d]))
            continue;
        try_factor(&bench, dtypes[d], device, false);
        try_factor(&bench, dtypes[d], device, true);
    }
    bench_forget();
    bench_expect_words(
        "a factor of dtype 0",
        bench.ops->scale(bench.accelerator, bench.stream, 0, device, device, 1, device, 1),
        TUTTI_ERR_UNSUPPORTED);
    bench_release(&bench, TUTTI_MEMORY_DEVICE, device);
    bench_close(&bench);
}
