/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/random.h"
#include "unit/reduce_reference.h"

enum { PERIOD = 509 };

static size_t period_of(const struct conformance_call *call)
{
    return call->count < PERIOD ? (size_t)call->count : PERIOD;
}

struct conformance_call values_of_block(const struct conformance_call *call, int block)
{
    struct conformance_call of_block = *call;

    of_block.key = random_mix(call->key + (uint64_t)block);
    return of_block;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Integers that a small float holds, their sum over eight members too. */
static double small_integer(tutti_dtype dtype, tutti_reduce_op op, uint64_t random)
{
    static const double factors[] = {1, -1, 2, -0.5};
    const struct small_format *small = reference_small(dtype);
    const int64_t limit = small && small->fraction < 8 ? (2 << small->fraction) / MEMBERS_MAX : 255;

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

/* A NaN is quiet; in 16 bits and more it has a payload that tells whose it is. */
static reference_bits special_number(tutti_dtype dtype, uint64_t random)
{
    switch (random % 8) {
    case 0:
        return reference_encode(dtype, NAN) | (tutti_dtype_size(dtype) > 1 ? random >> 8 & 7 : 0);
    case 1:
        return reference_encode(dtype, random & 8 ? INFINITY : -INFINITY);
    case 2:
    case 3:
        return reference_encode(dtype, random & 8 ? 0.0 : -0.0);
    default:
        return reference_encode(dtype, small_integer(dtype, TUTTI_MIN, random >> 3));
    }
}

static double real_number(const struct conformance_call *call, uint64_t random)
{
    return call->values == VALUES_ROUGH ? rough_number(call->op, random)
                                        : small_integer(call->dtype, call->op, random);
}

static reference_bits input_bits(const struct conformance_call *call, int member, size_t i)
{
    const uint64_t random = random_mix(call->key + (uint64_t)member * UINT64_C(0xd6e8feb86659fd93) +
                                       (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
    const bool reduced = space_reduces(call->operation);

    if (reduced && reference_is_complex(call->dtype))
        return reference_complex(call->dtype, real_number(call, random),
                                 real_number(call, random_mix(random)));
    if (!reduced || !reference_is_float(call->dtype))
        return reference_wrap(call->dtype,
                              (__int128)((reference_bits)random << 64 | random_mix(random)));
    if (call->values == VALUES_SPECIAL)
        return special_number(call->dtype, random);
    return reference_encode(call->dtype, real_number(call, random));
}

static void fill_period(const struct conformance_call *call, int member, unsigned char *to)
{
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        const reference_bits bits = input_bits(call, member, i);

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
typedef bool (*accept_fn)(const struct conformance_call *call, size_t i, reference_bits want,
                          reference_bits got);

/* Zeros of a complex product get their sign from the order. */
static bool exactly(const struct conformance_call *call, size_t i, reference_bits want,
                    reference_bits got)
{
    const tutti_dtype dtype = call->dtype;

    (void)i;
    if (reference_is_complex(dtype) && call->op == TUTTI_PRODUCT)
        return reference_re(dtype, want) == reference_re(dtype, got) &&
               reference_im(dtype, want) == reference_im(dtype, got);
    return want == got;
}

/* NaN for NaN, whichever member's; of zeros either. */
static bool as_number(const struct conformance_call *call, size_t i, reference_bits want,
                      reference_bits got)
{
    (void)i;
    if (reference_is_nan(call->dtype, want))
        return reference_same(call->dtype, want, got);
    return reference_decode(call->dtype, want) == reference_decode(call->dtype, got);
}

/* A real number, or the parts of a complex one. */
struct exact {
    long double re, im;
};

static struct exact exact_of(tutti_dtype dtype, reference_bits bits)
{
    if (reference_is_complex(dtype))
        return (struct exact){reference_re(dtype, bits), reference_im(dtype, bits)};
    return (struct exact){reference_decode(dtype, bits), 0};
}

static struct exact exact_times(struct exact a, struct exact b)
{
    return (struct exact){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* What one rounding may change: a share of the number, and the last place of the smallest ones. */
static void rounding_of(tutti_dtype dtype, long double *ret_share, long double *ret_least)
{
    const struct small_format *small = reference_small(dtype);
    const bool wide = dtype == TUTTI_F64 || dtype == TUTTI_C128;

    *ret_share = small ? ldexp(1, -1 - small->fraction) : wide ? 0x1p-53L : 0x1p-24L;
    *ret_least = small ? ldexp(1, 1 - small->bias - small->fraction) : 0;
}

/* As far from the true value as n roundings of partial results can be, and as much again. */
static bool nearly(const struct conformance_call *call, size_t i, reference_bits want,
                   reference_bits got)
{
    const bool product = call->op == TUTTI_PRODUCT;
    const struct exact found = exact_of(call->dtype, got);
    struct exact value = {product, 0};
    long double size = product, share, least;

    (void)want;
    rounding_of(call->dtype, &share, &least);
    for (int member = 0; member < call->members; member++) {
        const struct exact x = exact_of(call->dtype, input_bits(call, member, i));

        value = product ? exact_times(value, x) : (struct exact){value.re + x.re, value.im + x.im};
        size = product ? size * (fabsl(x.re) + fabsl(x.im)) : size + fabsl(x.re) + fabsl(x.im);
    }
    if (call->op == TUTTI_AVG) {
        value.re /= call->members;
        value.im /= call->members;
        size /= call->members;
    }
    const long double bound = 2 * (call->members + 1) * (share * size + least);

    return fabsl(value.re - found.re) <= bound && fabsl(value.im - found.im) <= bound;
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
            const reference_bits wanted = reference_load(want + i * call->element, call->element);
            const reference_bits found = reference_load(at + i * call->element, call->element);

            if (wanted != found && !accept(call, i, wanted, found)) {
                snprintf(ret_words, size, "element %zu is 0x%llx:%016llx, not 0x%llx:%016llx",
                         begin + i, (unsigned long long)(found >> 64), (unsigned long long)found,
                         (unsigned long long)(wanted >> 64), (unsigned long long)wanted);
                return false;
            }
        }
    }
    return true;
}

bool values_check_copy(const struct conformance_call *call, int member, const void *got,
                       char *ret_words, size_t size)
{
    static unsigned char want[PERIOD * REFERENCE_SIZE_MAX];

    fill_period(call, member, want);
    return check(call, want, got, exactly, ret_words, size);
}

bool values_check_reduced(const struct conformance_call *call, const void *got, char *ret_words,
                          size_t size)
{
    static unsigned char want[PERIOD * REFERENCE_SIZE_MAX];
    static const accept_fn accept[] = {exactly, nearly, as_number};
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        reference_bits bits = input_bits(call, 0, i);

        for (int member = 1; member < call->members; member++)
            bits = reference_op(call->dtype, call->op, bits, input_bits(call, member, i));
        if (call->op == TUTTI_AVG)
            bits = reference_average(call->dtype, bits, (uint32_t)call->members);
        memcpy(want + i * call->element, &bits, call->element);
    }
    return check(call, want, got, accept[call->values], ret_words, size);
}
