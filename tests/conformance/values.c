/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/random.h"
#include "unit/reduce_reference.h"

enum { PERIOD = 509, ELEMENT_MAX = 8 };

static size_t period_of(const struct conformance_call *call)
{
    return call->count < PERIOD ? (size_t)call->count : PERIOD;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Integers that any half type holds, their sum over eight members too. */
static double small_integer(tutti_dtype dtype, tutti_reduce_op op, uint64_t random)
{
    static const double factors[] = {1, -1, 2, -0.5};
    const int64_t limit = dtype == TUTTI_BF16 ? 31 : 255;

    if (op == TUTTI_PRODUCT)
        return factors[random % 4];
    return (double)((int64_t)(random % (uint64_t)(2 * limit + 1)) - limit);
}

static double rough_number(tutti_reduce_op op, uint64_t random)
{
    const double fraction = (double)(random >> 11) * 0x1p-53; /* [0, 1) */

    if (op == TUTTI_PRODUCT)
        return (0.5 + 1.5 * fraction) * (random & 1 ? -1 : 1);
    return ldexp(2 * fraction - 1, (int)(random & 3));
}

static uint64_t special_number(tutti_dtype dtype, uint64_t random)
{
    switch (random % 8) {
    case 0: /* quiet, with a payload that tells whose it is */
        return reference_encode(dtype, NAN) |
               (dtype == TUTTI_F16    ? 0x200U
                : dtype == TUTTI_BF16 ? 0x40U
                                      : 0U) |
               (random >> 8 & 7);
    case 1:
        return reference_encode(dtype, random & 8 ? INFINITY : -INFINITY);
    case 2:
    case 3:
        return reference_encode(dtype, random & 8 ? 0.0 : -0.0);
    default:
        return reference_encode(dtype, small_integer(dtype, TUTTI_MIN, random >> 3));
    }
}

static uint64_t input_bits(const struct conformance_call *call, int member, size_t i)
{
    const uint64_t random = random_mix(call->key + (uint64_t)member * UINT64_C(0xd6e8feb86659fd93) +
                                       (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));

    if (call->operation > OPERATION_ALL_REDUCE_INTO || !reference_is_float(call->dtype))
        return reference_wrap(call->dtype, (__int128)random);
    switch (call->values) {
    case VALUES_ROUGH:
        return reference_encode(call->dtype, rough_number(call->op, random));
    case VALUES_SPECIAL:
        return special_number(call->dtype, random);
    default:
        return reference_encode(call->dtype, small_integer(call->dtype, call->op, random));
    }
}

static void fill_period(const struct conformance_call *call, int member, unsigned char *to)
{
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        const uint64_t bits = input_bits(call, member, i);

        memcpy(to + i * call->element, &bits, call->element);
    }
}

void values_fill(const struct conformance_call *call, int member, void *to)
{
    const size_t bytes = (size_t)call->count * call->element;
    size_t done = period_of(call) * call->element;

    fill_period(call, member, to);
    while (done < bytes) {
        const size_t part = done < bytes - done ? done : bytes - done;

        memcpy((unsigned char *)to + done, to, part);
        done += part;
    }
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Whether the bits at element i will do. */
typedef bool (*accept_fn)(const struct conformance_call *call, size_t i, uint64_t want,
                          uint64_t got);

static bool exactly(const struct conformance_call *call, size_t i, uint64_t want, uint64_t got)
{
    (void)call;
    (void)i;
    return want == got;
}

/* NaN for NaN, whichever member's; of zeros either. */
static bool as_number(const struct conformance_call *call, size_t i, uint64_t want, uint64_t got)
{
    (void)i;
    if (reference_is_nan(call->dtype, want))
        return reference_same(call->dtype, want, got);
    return reference_decode(call->dtype, want) == reference_decode(call->dtype, got);
}

/* As far from the true value as n roundings of partial results can be, and as much again. */
static bool nearly(const struct conformance_call *call, size_t i, uint64_t want, uint64_t got)
{
    const double unit = call->dtype == TUTTI_BF16  ? 0x1p-8
                        : call->dtype == TUTTI_F16 ? 0x1p-11
                        : call->dtype == TUTTI_F32 ? 0x1p-24
                                                   : 0x1p-53;
    long double value = call->op == TUTTI_PRODUCT, size = 0;

    (void)want;
    for (int member = 0; member < call->members; member++) {
        const double x = reference_decode(call->dtype, input_bits(call, member, i));

        value = call->op == TUTTI_PRODUCT ? value * x : value + x;
        size += fabsl((long double)x);
    }
    if (call->op == TUTTI_PRODUCT)
        size = fabsl(value);
    if (call->op == TUTTI_AVG) {
        value /= call->members;
        size /= call->members;
    }
    return fabsl(value - (long double)reference_decode(call->dtype, got)) <=
           2 * (call->members + 1) * (long double)unit * size + 0x1p-24L * (unit > 0x1p-20);
}

static bool check(const struct conformance_call *call, const unsigned char *want, const void *got,
                  accept_fn accept, char *ret_words, size_t size)
{
    const size_t period = period_of(call);

    for (size_t begin = 0; begin < call->count; begin += period) {
        const size_t n = call->count - begin < period ? (size_t)call->count - begin : period;
        const unsigned char *at = (const unsigned char *)got + begin * call->element;

        if (!memcmp(at, want, n * call->element))
            continue;
        for (size_t i = 0; i < n; i++) {
            const uint64_t wanted = reference_load(want + i * call->element, call->element);
            const uint64_t found = reference_load(at + i * call->element, call->element);

            if (wanted != found && !accept(call, i, wanted, found)) {
                snprintf(ret_words, size, "element %zu is 0x%llx, not 0x%llx", begin + i,
                         (unsigned long long)found, (unsigned long long)wanted);
                return false;
            }
        }
    }
    return true;
}

bool values_check_copy(const struct conformance_call *call, int member, const void *got,
                       char *ret_words, size_t size)
{
    static unsigned char want[PERIOD * ELEMENT_MAX];

    fill_period(call, member, want);
    return check(call, want, got, exactly, ret_words, size);
}

bool values_check_reduced(const struct conformance_call *call, const void *got, char *ret_words,
                          size_t size)
{
    static unsigned char want[PERIOD * ELEMENT_MAX];
    static const accept_fn accept[] = {exactly, nearly, as_number};
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        uint64_t bits = input_bits(call, 0, i);

        for (int member = 1; member < call->members; member++)
            bits = reference_op(call->dtype, call->op, bits, input_bits(call, member, i));
        if (call->op == TUTTI_AVG)
            bits = reference_average(call->dtype, bits, (uint32_t)call->members);
        memcpy(want + i * call->element, &bits, call->element);
    }
    return check(call, want, got, accept[call->values], ret_words, size);
}
