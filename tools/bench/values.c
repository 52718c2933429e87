/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/values.h"

#include <glib.h>
#include <string.h>

#include "bench/operation.h"

enum {
    PERIOD = 4093, /* elements; a prime, so that blocks of usual sizes begin at different places */
    ELEMENT_MAX = 16,
    SPOILT = 0xA5
};

/* DLPack's codes of dtypes, as tutti.h lists them. */
enum { CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_COMPLEX = 5, CODE_F8E4M3FN = 10, CODE_F8E5M2 = 12 };

/* ---- elements ---- */

static int mantissa_bits(unsigned code, unsigned bits)
{
    switch (code) {
    case CODE_BFLOAT:
        return 7;
    case CODE_F8E4M3FN:
        return 3;
    case CODE_F8E5M2:
        return 2;
    default:
        return bits == 16 ? 10 : bits == 32 ? 23 : 52;
    }
}

/* The bits of a float that is a small whole number. */
static uint64_t float_of(uint64_t number, unsigned bits, int mantissa)
{
    const int exponent_bits = (int)bits - 1 - mantissa, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = 0;

    if (!number)
        return 0;
    while (number >> (exponent + 1))
        exponent++;
    const uint64_t fraction = (number << mantissa >> exponent) - (UINT64_C(1) << mantissa);
    return (uint64_t)(exponent + bias) << mantissa | fraction;
}

void values_put(tutti_dtype dtype, uint64_t number, char *ret_element)
{
    const unsigned code = dtype & 0xff;
    const unsigned bits = (dtype >> 8 & 0xff) / (code == CODE_COMPLEX ? 2 : 1);
    uint64_t word = number;

    if (code == CODE_FLOAT || code == CODE_BFLOAT || code == CODE_COMPLEX ||
        code == CODE_F8E4M3FN || code == CODE_F8E5M2)
        word = float_of(number, bits, mantissa_bits(code, bits));
    memset(ret_element, 0, tutti_dtype_size(dtype));
    for (unsigned i = 0; i < MIN(bits, 64) / 8; i++)
        ret_element[i] = (char)(word >> (8 * i));
}

/* ---- numbers ---- */

static uint64_t mixed(int64_t k)
{
    return (uint64_t)((uint32_t)k * UINT32_C(2654435761)) >> 13;
}

/* What differs between ranks. */
static uint64_t different(const struct bench_call *call, int rank, int64_t k)
{
    return (mixed(k) + 5 * (uint64_t)rank) & (call->dtype == TUTTI_BOOL ? 1 : 7);
}

/* What one rank has and the others do not. */
static uint64_t single(const struct bench_call *call, int64_t k)
{
    if (call->dtype != TUTTI_BOOL)
        return 1 + mixed(k) % 3;
    return call->op == TUTTI_PRODUCT ? mixed(k) & 1 : 1;
}

static tutti_reduce_op kind_of(const struct bench_call *call)
{
    return call->op > TUTTI_PREMUL_SUM ? TUTTI_PREMUL_SUM : call->op;
}

static uint64_t input_number(const struct bench_call *call, int rank, int64_t k)
{
    const bool mine = k % call->size == rank;

    if (!(call->operation->traits & TUTTI_OPERATION_REDUCES))
        return different(call, rank, k);
    switch (kind_of(call)) {
    case TUTTI_SUM:
    case TUTTI_PREMUL_SUM:
        return mine ? single(call, k) : 0;
    case TUTTI_PRODUCT:
        return mine ? single(call, k) : 1;
    case TUTTI_AVG:
        return mixed(k) & 1;
    default:
        return different(call, rank, k);
    }
}

static uint64_t combined(tutti_reduce_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case TUTTI_MIN:
        return MIN(a, b);
    case TUTTI_MAX:
        return MAX(a, b);
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

static uint64_t reduced_number(const struct bench_call *call, int64_t k)
{
    const tutti_reduce_op op = kind_of(call);
    uint64_t number = input_number(call, 0, k);

    if (op == TUTTI_SUM || op == TUTTI_PRODUCT)
        return single(call, k);
    if (op == TUTTI_PREMUL_SUM)
        return VALUES_PREMUL_FACTOR * single(call, k);
    for (int rank = 1; op != TUTTI_AVG && rank < call->size; rank++)
        number = combined(op, number, input_number(call, rank, k));
    return number;
}

/* ---- vectors ---- */

/* One period of the input of `rank`, or of the reduced inputs of all if it is -1; g_free(). */
static char *period_of(const struct bench_call *call, int rank)
{
    const size_t size = tutti_dtype_size(call->dtype);
    char *period = g_malloc(PERIOD * size);

    for (int k = 0; k < PERIOD; k++)
        values_put(call->dtype, rank < 0 ? reduced_number(call, k) : input_number(call, rank, k),
                   period + (size_t)k * size);
    return period;
}

/* How many elements from `k` on, at most `count`, are in one period. */
static int64_t run_of(int64_t k, int64_t count)
{
    return MIN(PERIOD - k % PERIOD, count);
}

bool values_are_exact(const struct bench_call *call)
{
    /* AVG adds ones of all ranks: the most that the dtype adds exactly. */
    const unsigned code = call->dtype & 0xff, bits = call->dtype >> 8 & 0xff;
    const int most = code == CODE_F8E5M2     ? 8
                     : code == CODE_F8E4M3FN ? 16
                     : bits == 8             ? 127
                     : code == CODE_BFLOAT   ? 256
                     : bits == 16            ? 2048
                                             : G_MAXINT;

    return call->operation->origin && (!(call->operation->traits & TUTTI_OPERATION_REDUCES) ||
                                       call->op != TUTTI_AVG || call->size <= most);
}

void values_fill(struct bench_call *call)
{
    const size_t size = tutti_dtype_size(call->dtype);
    g_autofree char *period = period_of(call, call->rank);

    for (int64_t k = 0, run; k < call->in.count; k += run) {
        run = run_of(k, call->in.count - k);
        memcpy(call->in.data + (size_t)k * size, period + (size_t)(k % PERIOD) * size,
               (size_t)run * size);
    }
    if (call->out.count)
        memset(call->out.data, SPOILT, (size_t)call->out.count * size);
}

static void name_element(const char *at, size_t size, char *ret_text, size_t room)
{
    g_autoptr(GString) text = g_string_new("0x");

    for (size_t i = size; i > 0; i--)
        g_string_append_printf(text, "%02x", (unsigned char)at[i - 1]);
    g_strlcpy(ret_text, text->str, room);
}

static void compare(const struct bench_call *call, const char *got, const char *expected,
                    int64_t first, int64_t count, struct values_wrong *wrong)
{
    const size_t size = tutti_dtype_size(call->dtype);

    if (memcmp(got, expected, (size_t)count * size) == 0)
        return;
    for (int64_t i = 0; i < count; i++) {
        const size_t at = (size_t)i * size;

        if (memcmp(got + at, expected + at, size) == 0)
            continue;
        if (!wrong->count++) {
            wrong->first = first + i;
            name_element(got + at, size, wrong->got, sizeof wrong->got);
            name_element(expected + at, size, wrong->expected, sizeof wrong->expected);
        }
    }
}

void values_check(const struct bench_call *call, struct values_wrong *ret_wrong)
{
    const char *result = call->operation->in_place ? call->in.data : call->out.data;
    const size_t size = tutti_dtype_size(call->dtype);
    struct values_wrong wrong = {0};

    for (int block = 0; block < call->size; block++) {
        struct bench_origin origin;

        if (!call->operation->origin(call, block, &origin))
            continue;
        g_autofree char *period = period_of(call, origin.rank);
        for (int64_t i = 0, run; i < origin.count; i += run) {
            const int64_t k = origin.first + i;

            run = run_of(k, origin.count - i);
            compare(call, result + (size_t)(origin.at + i) * size,
                    period + (size_t)(k % PERIOD) * size, origin.at + i, run, &wrong);
        }
    }
    *ret_wrong = wrong;
}

void values_touch(struct bench_call *call)
{
    const size_t size = tutti_dtype_size(call->dtype);
    const size_t bytes = (size_t)call->in.count * size;
    uint64_t *word = (void *)call->in.data;
    uint64_t ones[2];

    if (!bytes)
        return; /* not every rank has an input */
    for (size_t i = 0; i < sizeof ones; i += size)
        values_put(call->dtype, 1, (char *)ones + i);
    for (size_t i = 0; i < bytes / sizeof ones; i++) {
        word[2 * i] = ones[0];
        word[2 * i + 1] = ones[1];
    }
    memcpy(call->in.data + bytes / sizeof ones * sizeof ones, ones, bytes % sizeof ones);
    __asm__ volatile("" ::"r"(word) : "memory");
}
