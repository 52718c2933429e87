/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/trials.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce/kernels.h"
#include "reduce/tree.h"
#include "tensor/layout.h"
#include "unit/reduce_reference.h"

enum {
    OPERANDS = 9,
    COUNT_MAX = 4096,    /* elements of a trial with numbers of any kind */
    COUNT_SMALL = 65536, /* all numbers of 16 bits */
    BYTES = 2 * COUNT_SMALL,
    SLACK = 64,
    STRIDE = BYTES + 2 * SLACK,
    UNTOUCHED = 0xa5,
    SHOWN = 5
};

_Static_assert((int)TRIAL_ROWS == (int)REDUCE_DTYPES, "a row for each dtype");

static const tutti_dtype dtypes[REDUCE_DTYPES] = {
#define ENTRY(NAME, name, code, bits) [REDUCE_##NAME] = TUTTI_##NAME,
    TUTTI_DTYPE_LIST(ENTRY)
#undef ENTRY
};

struct trial {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int operands;
    uint32_t members;
    bool fixed_order;
    size_t count;
    size_t dst_at, src_at; /* misalignment, in bytes */
    int same;              /* dst is operand `same` - 1; 0: apart */
};

static unsigned char sources[OPERANDS][BYTES], wanted[BYTES], got[STRIDE];
static unsigned char *device_dst, *device_sources; /* of STRIDE bytes each */

static uint64_t seed = 1;

static uint64_t random_bits(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 33 ^ seed << 17;
}

static reference_bits random_number(tutti_dtype dtype)
{
    static const double rare[] = {0.,  -0.,    1.,      -1.,  INFINITY, -INFINITY,
                                  NAN, 65504., 0x1p-24, 448., 0x1p-149, 1e38};
    const uint64_t bits = random_bits();

    if (reference_is_complex(dtype))
        return random_number(reference_part(dtype)) | random_number(reference_part(dtype))
                                                          << 4 * tutti_dtype_size(dtype);
    if (!reference_is_float(dtype) || bits % 4 == 0)
        return reference_wrap(dtype, (__int128)(bits * UINT64_C(0x9e3779b97f4a7c15)));
    if (bits % 4 == 1)
        return reference_encode(dtype, rare[bits / 4 % (sizeof rare / sizeof *rare)]);
    return reference_encode(dtype, ((double)(bits >> 8 & 0xffffff) - 0x7fffff) * 0x1p-22);
}

/* Any numbers of the pool, in their order, from any place on. */
static void fill(tutti_dtype dtype, int operands, size_t count)
{
    enum { POOL = 3 * COUNT_MAX };
    static unsigned char pool[POOL * REFERENCE_SIZE_MAX];
    static tutti_dtype pool_of;
    const size_t size = tutti_dtype_size(dtype);

    for (size_t i = 0; pool_of != dtype && i < POOL; i++) {
        const reference_bits number = random_number(dtype);

        memcpy(pool + i * size, &number, size);
    }
    pool_of = dtype;
    for (int o = 0; o < operands; o++)
        memcpy(sources[o], pool + random_bits() % (POOL - count) * size, count * size);
}

/* Small floats from left to right, divided before they are rounded: what core/reduce does in parts. */
static void fold_and_divide(const struct trial *t)
{
    const struct reduce_tree parts = reduce_tree_of_average(t->dtype, t->members);
    float *sum = calloc(2 * t->count, sizeof *sum);

    parts.widen(sum, sources[0], t->count);
    for (int o = 1; o < t->operands; o++) {
        parts.widen(sum + t->count, sources[o], t->count);
        parts.pair(sum, sum, sum + t->count, t->count);
    }
    parts.divide(sum, t->count, t->members);
    parts.narrow(wanted, sum, t->count);
    free(sum);
}

static void compute_wanted(const struct trial *t)
{
    const uint32_t members = t->dtype == TUTTI_BOOL ? 1 : t->members;
    const reduce_finish_fn finish = members ? reduce_finish(t->dtype, t->op, members) : NULL;
    const bool once = members > 1 && reduce_averages_once(t->op, t->dtype);
    const void *vectors[OPERANDS];

    for (int o = 0; o < t->operands; o++)
        vectors[o] = sources[o];
    if (t->operands > 1 && once && !t->fixed_order) {
        fold_and_divide(t);
        return;
    }
    const struct reduce_tree tree =
        once ? reduce_tree_of_average(t->dtype, t->members) : reduce_tree_of(t->op, t->dtype);
    if (t->operands == 1)
        memcpy(wanted, sources[0], t->count * tutti_dtype_size(t->dtype));
    else if (t->fixed_order)
        reduce_tree(&tree, wanted, vectors, t->operands, t->count);
    else
        reduce_many(t->dtype, t->op)(wanted, vectors, t->operands, t->count);
    if (finish && (t->operands == 1 || !once))
        finish(wanted, t->count, members);
}

/* Of two NaNs a sum or product may keep either, and so may a part of a complex product. */
static bool may_differ(const struct trial *t, size_t i)
{
    const size_t size = tutti_dtype_size(t->dtype);
    int nans = 0;

    if (t->op == TUTTI_MIN || t->op == TUTTI_MAX)
        return false;
    for (int o = 0; o < t->operands; o++)
        nans += reference_is_nan(t->dtype, reference_load(sources[o] + i * size, size));
    return nans > 1 || t->operands > 2 || reference_is_complex(t->dtype);
}

static int compare(const struct trial *t)
{
    const size_t size = tutti_dtype_size(t->dtype);
    int differences = 0;

    for (size_t i = 0; i < t->count; i++) {
        const reference_bits want = reference_load(wanted + i * size, size),
                             have = reference_load(got + t->dst_at + i * size, size);

        if (want == have || (may_differ(t, i) && reference_same(t->dtype, want, have)))
            continue;
        if (differences++ < SHOWN)
            fprintf(stderr,
                    "%s %s of %d operands, %u members%s, at +%zu +%zu, element %zu of %zu: "
                    "%llx:%016llx instead of %llx:%016llx\n",
                    tutti_dtype_name(t->dtype), tutti_reduce_op_name(t->op), t->operands,
                    t->members, t->fixed_order ? ", fixed order" : "", t->dst_at, t->src_at, i,
                    t->count, (unsigned long long)(have >> 64), (unsigned long long)have,
                    (unsigned long long)(want >> 64), (unsigned long long)want);
    }
    return differences;
}

/* What lies before and behind the result must stay. */
static int compare_slack(size_t at, size_t bytes, const char *what)
{
    for (size_t i = 0; i < STRIDE; i++)
        if ((i < at || i >= at + bytes) && got[i] != UNTOUCHED) {
            fprintf(stderr, "%s: byte %zd beside the result of %zu is written\n", what,
                    (ssize_t)(i - at), bytes);
            return 1;
        }
    return 0;
}

static void prepare(const struct runner *runner)
{
    if (device_dst)
        return;
    device_dst = runner->allocate(STRIDE);
    device_sources = runner->allocate((size_t)OPERANDS * STRIDE);
}

static void clear_dst(const struct runner *runner)
{
    memset(got, UNTOUCHED, sizeof got);
    runner->put(device_dst, got, sizeof got);
}

static int run(const struct runner *runner, const struct trial *t)
{
    prepare(runner);
    const size_t bytes = t->count * tutti_dtype_size(t->dtype);
    struct kernel_reduce k = {.dst = device_dst + t->dst_at,
                              .first = device_sources + t->src_at,
                              .rest = device_sources + STRIDE + t->src_at,
                              .count = t->count,
                              .stride = STRIDE,
                              .operands = (uint32_t)t->operands,
                              .members = t->members,
                              .fixed_order = t->fixed_order};
    struct kernel_id id;
    int differences = 0;

    if (!kernel_find_reduce(t->dtype, t->op, &id)) {
        fprintf(stderr, "%s of %s has no kernel\n", tutti_reduce_op_name(t->op),
                tutti_dtype_name(t->dtype));
        return 1;
    }
    clear_dst(runner);
    for (int o = 0; o < t->operands; o++)
        runner->put(device_sources + (size_t)o * STRIDE + t->src_at, sources[o], bytes);
    if (t->same)
        k.dst = device_sources + (size_t)(t->same - 1) * STRIDE + t->src_at;
    runner->run(&id, &k, bytes);
    if (t->same) {
        runner->get(got + t->dst_at, k.dst, bytes);
    } else {
        runner->get(got, device_dst, sizeof got);
        differences = compare_slack(t->dst_at, bytes, id.name);
    }
    compute_wanted(t);
    return differences + compare(t);
}

/* The forms of one combination, each with its own numbers. */
static int run_forms(const struct runner *runner, struct trial t)
{
    static const int operands[] = {2, 3, 4, 7, OPERANDS};
    const bool finishes = t.op == TUTTI_AVG || t.dtype == TUTTI_BOOL;
    int differences = 0;

    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        for (int form = 0; form < (finishes ? 4 : 2); form++) {
            t.operands = operands[i];
            t.fixed_order = form & 1;
            t.members = form & 2 ? (uint32_t)t.operands : 0;
            t.same = i == 0 ? form + 1 : 0;
            t.same = t.same > 2 ? 0 : t.same;
            fill(t.dtype, t.operands, t.count);
            differences += run(runner, &t);
        }
    t.operands = 1;
    t.fixed_order = false;
    t.same = 0;
    /* For one member an average is finished as it is. */
    for (uint32_t members = t.dtype == TUTTI_BOOL ? 1 : 2; finishes && members < 4000000000U;
         members = members * 13 + 2) {
        t.members = members;
        fill(t.dtype, 1, t.count);
        differences += run(runner, &t);
    }
    return differences;
}

int trial_reduce(const struct runner *runner, int row)
{
    static const struct {
        size_t count, dst_at, src_at;
    } places[] = {{1, 0, 0},    {5, 0, 0},    {16, 0, 0},       {31, 0, 0},  {1000, 0, 0},
                  {1003, 1, 0}, {77, 0, 3},   {515, 8, 8},      {515, 4, 8}, {300, 16, 2},
                  {64, 16, 48}, {1027, 5, 5}, {COUNT_MAX, 0, 0}};
    int differences = 0;

    for (tutti_reduce_op op = 0; op <= TUTTI_PREMUL_SUM; op++) {
        struct kernel_id id;
        const bool taken = tutti_reduce_op_meaning(op, dtypes[row]) != NULL;

        if (kernel_find_reduce(dtypes[row], op, &id) != taken) {
            fprintf(stderr, "%s of %s: the core %s it\n", tutti_reduce_op_name(op),
                    tutti_dtype_name(dtypes[row]), taken ? "takes" : "does not take");
            differences++;
        }
        for (size_t i = 0; taken && i < sizeof places / sizeof *places; i++)
            differences += run_forms(runner, (struct trial){.dtype = dtypes[row],
                                                            .op = op,
                                                            .count = places[i].count,
                                                            .dst_at = places[i].dst_at,
                                                            .src_at = places[i].src_at});
    }
    return differences;
}

int trial_small(const struct runner *runner)
{
    int differences = 0;

    for (int row = 0; row < REDUCE_DTYPES; row++) {
        const size_t size = tutti_dtype_size(dtypes[row]);

        for (tutti_reduce_op op = 0; size <= 2 && op < REDUCE_OPS; op++)
            for (unsigned round = 0; tutti_reduce_op_meaning(op, dtypes[row]) && round < 4;
                 round++) {
                const bool average = op == TUTTI_AVG;

                for (unsigned i = 0; i < COUNT_SMALL; i++) {
                    const unsigned other = size == 1 ? i >> 8 : i * 40503U + round * 12345U;

                    memcpy(sources[0] + i * size, &(uint16_t){(uint16_t)i}, size);
                    memcpy(sources[1] + i * size, &(uint16_t){(uint16_t)other}, size);
                }
                differences += run(runner, &(struct trial){.dtype = dtypes[row],
                                                           .op = op,
                                                           .operands = average ? 1 : 2,
                                                           .members = average ? round + 2 : 0,
                                                           .count = COUNT_SMALL});
            }
    }
    return differences;
}

int trial_scale(const struct runner *runner)
{
    int differences = 0;

    for (int row = 0; row < REDUCE_DTYPES; row++)
        for (int round = 0; round < 16; round++) {
            const size_t size = tutti_dtype_size(dtypes[row]);
            struct trial t = {
                .dtype = dtypes[row], .op = TUTTI_PRODUCT, .operands = 2, .count = 1003};
            struct kernel_scale k = {.count = t.count};
            struct kernel_id id;

            t.dst_at = round & 1 ? 0 : (size_t)round;
            t.src_at = round & 2 ? 0 : (size_t)(15 - round);
            if (!kernel_find_scale(t.dtype, &id)) {
                differences += tutti_reduce_op_meaning(TUTTI_PREMUL_SUM, t.dtype) != NULL;
                continue;
            }
            prepare(runner);
            clear_dst(runner);
            fill(t.dtype, 2, t.count);
            for (size_t i = 1; i < t.count; i++)
                memcpy(sources[1] + i * size, sources[1], size);
            k.dst = device_dst + t.dst_at;
            k.src = device_sources + t.src_at;
            runner->put(device_sources + t.src_at, sources[0], t.count * size);
            if (round & 4) {
                k.factor = device_sources + STRIDE + t.src_at;
                runner->put(device_sources + STRIDE + t.src_at, sources[1], size);
            } else {
                memcpy(k.value, sources[1], size);
            }
            runner->run(&id, &k, t.count * size);
            runner->get(got, device_dst, sizeof got);
            compute_wanted(&t);
            differences += compare(&t) + compare_slack(t.dst_at, t.count * size, id.name);
        }
    return differences;
}
