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

struct conformance_call values_of_block(const struct conformance_call *call, int from, int to)
{
    struct conformance_call of_block = *call;

    of_block.count = sequence_block(call, from, to);
    if (space_takes_blocks(call->operation))
        of_block.key = random_mix(call->key + (uint64_t)to);
    return of_block;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* x -> a x + b modulo 16, in a byte: one map after the other. a is odd, so that none forgets. */
static unsigned after(unsigned first, unsigned second)
{
    const unsigned a = first % 16 | 1, b = first / 16, c = second % 16 | 1, d = second / 16;

    return a * c % 16 | (b * c + d) % 16 << 4;
}

/* 1 + 2z is the product of 1 + 2x and 1 + 2y. */
static unsigned odd_product(unsigned x, unsigned y)
{
    return x + y + 2 * x * y;
}

void values_combine(bool commuting, void *dst, const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    unsigned char *to = dst;

    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(commuting ? odd_product(x[i], y[i]) : after(x[i], y[i]));
}

static reference_bits combine(const struct conformance_call *call, const reference_bits *operands)
{
    reference_bits result = operands[0];

    for (int member = 1; member < call->members; member++)
        values_combine(call->op_level == OP_COMMUTING, &result, &result, &operands[member],
                       call->element);
    return result;
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

    if (reduced && !space_is_own(call->op_level) && reference_is_complex(call->dtype))
        return reference_complex(call->dtype, real_number(call, random),
                                 real_number(call, random_mix(random)));
    if (!reduced || space_is_own(call->op_level) || !reference_is_float(call->dtype))
        return reference_wrap(call->dtype,
                              (__int128)((reference_bits)random << 64 | random_mix(random)));
    if (call->values == VALUES_SPECIAL)
        return special_number(call->dtype, random);
    return reference_encode(call->dtype, real_number(call, random));
}

/* Where sums are to be exact, no small float gets a digit more than its input has. */
static double real_factor(const struct conformance_call *call, uint64_t random)
{
    static const double factors[] = {1, -1, 2, 3};

    if (call->values == VALUES_ROUGH)
        return rough_number(TUTTI_PRODUCT, random);
    if (reference_small(call->dtype))
        return (random & 1 ? -1 : 1) * (call->whole_key & 1 ? 2 : 1);
    return factors[random % 4];
}

static reference_bits factor_bits(const struct conformance_call *call, int member, size_t i)
{
    const bool each = call->op_level == OP_PREMUL_EACH;
    const uint64_t random = random_mix((each ? call->key + i : call->whole_key) * 3 +
                                       (uint64_t)member * UINT64_C(0xd6e8feb86659fd93));

    if (reference_is_complex(call->dtype))
        return reference_complex(call->dtype, real_factor(call, random),
                                 real_factor(call, random_mix(random)));
    if (!reference_is_float(call->dtype))
        return reference_wrap(call->dtype, (__int128)random);
    return reference_encode(call->dtype, real_factor(call, random));
}

/* What is reduced. */
static reference_bits operand_bits(const struct conformance_call *call, int member, size_t i)
{
    const reference_bits bits = input_bits(call, member, i);

    return space_is_premul(call->op_level)
               ? reference_op(call->dtype, TUTTI_PRODUCT, bits, factor_bits(call, member, i))
               : bits;
}

typedef reference_bits (*bits_fn)(const struct conformance_call *call, int member, size_t i);

static void fill_period(const struct conformance_call *call, int member, bits_fn bits_of,
                        unsigned char *to)
{
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        const reference_bits bits = bits_of(call, member, i);

        memcpy(to + i * call->element, &bits, call->element);
    }
}

static void fill(const struct conformance_call *call, int member, bits_fn bits_of, void *to)
{
    const size_t bytes = (size_t)call->count * call->element;
    size_t done = period_of(call) * call->element;

    fill_period(call, member, bits_of, to);
    while (done < bytes) {
        const size_t part = done < bytes - done ? done : bytes - done;

        memcpy((unsigned char *)to + done, to, part);
        done += part;
    }
}

void values_fill(const struct conformance_call *call, int member, void *to)
{
    fill(call, member, input_bits, to);
}

void values_fill_factors(const struct conformance_call *call, int member, void *to)
{
    fill(call, member, factor_bits, to);
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Whether the bits at element i will do. */
typedef bool (*accept_fn)(const struct conformance_call *call, size_t i, reference_bits want,
                          reference_bits got);

static bool exactly(const struct conformance_call *call, size_t i, reference_bits want,
                    reference_bits got)
{
    (void)call;
    (void)i;
    return want == got;
}

/* Zeros of a complex product get their sign from the order. */
static bool exactly_but_zeros(const struct conformance_call *call, size_t i, reference_bits want,
                              reference_bits got)
{
    const tutti_dtype dtype = call->dtype;

    if (reference_is_complex(dtype) && call->op == TUTTI_PRODUCT)
        return reference_re(dtype, want) == reference_re(dtype, got) &&
               reference_im(dtype, want) == reference_im(dtype, got);
    return exactly(call, i, want, got);
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

/* As far from the true value as the roundings of the operands and of n partial results can be, and as
 * much again. */
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
        const struct exact x = exact_of(call->dtype, operand_bits(call, member, i));

        value = product ? exact_times(value, x) : (struct exact){value.re + x.re, value.im + x.im};
        size = product ? size * (fabsl(x.re) + fabsl(x.im)) : size + fabsl(x.re) + fabsl(x.im);
    }
    if (call->op == TUTTI_AVG) {
        value.re /= call->members;
        value.im /= call->members;
        size /= call->members;
    }
    const long double bound = 2 * (call->members + 3) * (share * size + least);

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

    fill_period(call, member, input_bits, want);
    return check(call, want, got, exactly, ret_words, size);
}

static reference_bits reduced_bits(const struct conformance_call *call, size_t i)
{
    reference_bits operands[MEMBERS_MAX], bits;

    for (int member = 0; member < call->members; member++)
        operands[member] = operand_bits(call, member, i);
    if (space_is_own(call->op_level))
        return combine(call, operands);
    if (call->op == TUTTI_AVG && (call->ordered || reference_small(call->dtype)))
        return reference_tree_average(call->dtype, operands, call->members);
    if (call->ordered) {
        bits = reference_tree(call->dtype, call->op, operands, call->members);
    } else {
        bits = operands[0];
        for (int member = 1; member < call->members; member++)
            bits = reference_op(call->dtype, call->op, bits, operands[member]);
    }
    if (call->dtype == TUTTI_BOOL) /* also that of one member */
        bits = bits != 0;
    return call->op == TUTTI_AVG ? reference_average(call->dtype, bits, (uint32_t)call->members)
                                 : bits;
}

bool values_check_reduced(const struct conformance_call *call, const void *got, char *ret_words,
                          size_t size)
{
    static unsigned char want[PERIOD * REFERENCE_SIZE_MAX];
    static const accept_fn accept[] = {exactly_but_zeros, nearly, as_number};
    const size_t period = period_of(call);

    for (size_t i = 0; i < period; i++) {
        const reference_bits bits = reduced_bits(call, i);

        memcpy(want + i * call->element, &bits, call->element);
    }
    return check(call, want, got,
                 call->ordered && call->values != VALUES_SPECIAL ? exactly : accept[call->values],
                 ret_words, size);
}
