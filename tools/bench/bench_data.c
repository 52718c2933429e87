/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs are small whole numbers that follow from rank, block and element, so every rank can tell what its
 * result must be. Sums of them are exact in each type as long as the ranks are few; where a narrow float cannot
 * hold the result, it may differ by its precision.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

enum { VALUES = 3 };

/* ---- elements --------------------------------------------------------------------------------- */

static uint16_t half_of(double value)
{
    int exponent;
    const double fraction = frexp(value, &exponent); /* value = fraction * 2^exponent, from 0.5 */

    return value > 0
               ? (uint16_t)((uint32_t)(exponent + 14) << 10 | ((uint32_t)(fraction * 2048) & 0x3ff))
               : 0;
}

static double of_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;

    return exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double of_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* X(type, the C type): those that convert by a cast. */
#define PLAIN_TYPES(X)                                                                             \
    X(TUTTI_U8, uint8_t)                                                                           \
    X(TUTTI_I8, int8_t)                                                                            \
    X(TUTTI_U16, uint16_t)                                                                         \
    X(TUTTI_I16, int16_t)                                                                          \
    X(TUTTI_U32, uint32_t)                                                                         \
    X(TUTTI_I32, int32_t)                                                                          \
    X(TUTTI_U64, uint64_t)                                                                         \
    X(TUTTI_I64, int64_t)                                                                          \
    X(TUTTI_F32, float)                                                                            \
    X(TUTTI_F64, double)

static void put(void *data, tutti_dtype dtype, uint64_t i, double value)
{
    switch (dtype) {
#define PUT(type, ctype)                                                                           \
    case type:                                                                                     \
        ((ctype *)data)[i] = (ctype)value;                                                         \
        return;
        PLAIN_TYPES(PUT)
#undef PUT
    case TUTTI_F16:
        ((uint16_t *)data)[i] = half_of(value);
        return;
    default:
        ((uint16_t *)data)[i] = bf16_of((float)value);
    }
}

static double get(const void *data, tutti_dtype dtype, uint64_t i)
{
    switch (dtype) {
#define GET(type, ctype)                                                                           \
    case type:                                                                                     \
        return (double)((const ctype *)data)[i];
        PLAIN_TYPES(GET)
#undef GET
    case TUTTI_F16:
        return of_half(((const uint16_t *)data)[i]);
    default:
        return of_bf16(((const uint16_t *)data)[i]);
    }
}

bool bench_data_knows(tutti_dtype dtype)
{
#define IS_TYPE(type, ctype) dtype == type ||
    return PLAIN_TYPES(IS_TYPE) dtype == TUTTI_F16 || dtype == TUTTI_BF16;
#undef IS_TYPE
}

/* The bits behind the point that count, of the type's numbers. */
static int precision_of(tutti_dtype dtype)
{
    return dtype == TUTTI_BF16 ? 8 : dtype == TUTTI_F16 ? 11 : dtype == TUTTI_F32 ? 24 : 53;
}

/* ---- inputs and results ------------------------------------------------------------------------- */

/* Element i of the block that `rank` has for `to`; of its vector, `to` is 0. */
static double value_of(int rank, int to, uint64_t i)
{
    return (double)(1 + ((uint64_t)rank + 2 * (uint64_t)to + i) % VALUES);
}

static uint64_t whole(double value)
{
    return (uint64_t)value;
}

static double reduced(const struct bench_call *call, int ranks, int to, uint64_t i)
{
    double result = value_of(0, to, i);

    for (int r = 1; r < ranks; r++) {
        const double v = value_of(r, to, i);

        switch (call->plan->op) {
        case TUTTI_PRODUCT:
            result *= v;
            break;
        case TUTTI_MIN:
            result = fmin(result, v);
            break;
        case TUTTI_MAX:
            result = fmax(result, v);
            break;
        case TUTTI_BAND:
            result = (double)(whole(result) & whole(v));
            break;
        case TUTTI_BOR:
            result = (double)(whole(result) | whole(v));
            break;
        case TUTTI_BXOR:
            result = (double)(whole(result) ^ whole(v));
            break;
        default:
            result += v;
        }
    }
    return call->plan->op == TUTTI_AVG ? result / ranks : result;
}

void bench_data_fill(const struct bench_rank *rank, const struct bench_call *call)
{
    const int blocks = call->operation->takes_blocks ? rank->size : 1;

    for (int to = 0; to < blocks; to++)
        for (uint64_t i = 0; i < call->count; i++)
            put(call->in, call->plan->dtype, (uint64_t)to * call->count + i,
                value_of(rank->rank, to, i));
}

/* What element i of block `block` of this rank's result must be. */
static double expected(const struct bench_rank *rank, const struct bench_call *call, int block,
                       uint64_t i)
{
    const struct bench_operation *o = call->operation;

    if (o->reduces)
        return reduced(call, rank->size, o->takes_blocks ? rank->rank : 0, i);
    if (o->is_message)
        return value_of(!rank->rank, 0, i);
    if (o->gives_blocks)
        return value_of(block, o->takes_blocks ? rank->rank : 0, i);
    return value_of(0, o->takes_blocks ? rank->rank : 0, i); /* of the root */
}

/* Whether it is right, in a type that may have rounded, or gone round. */
static bool is_right(tutti_dtype dtype, double got, double wanted)
{
    const uint8_t code = (uint8_t)(dtype & 0xff), bits = (uint8_t)(dtype >> 8);
    const bool is_float = code != (TUTTI_U8 & 0xff) && code != (TUTTI_I8 & 0xff);

    if (is_float)
        return fabs(got - wanted) <= ldexp(fabs(wanted), 2 - precision_of(dtype));
    if (wanted != floor(wanted)) /* a mean */
        return fabs(got - wanted) < 1;
    return bits >= 64 || fmod(got - wanted, ldexp(1, bits)) == 0;
}

/* Whether the rank has a result. */
static bool has_result(const struct bench_rank *rank, const struct bench_operation *o)
{
    if (o->is_message)
        return rank->rank < 2;
    return !o->rooted || rank->rank == 0 || !(o->reduces || o->gives_blocks);
}

uint64_t bench_data_wrong(const struct bench_rank *rank, const struct bench_call *call)
{
    const struct bench_operation *o = call->operation;
    const void *result = o->in_place ? call->in : call->out;
    const int blocks = o->gives_blocks ? rank->size : 1;
    uint64_t wrong = 0;

    if (!has_result(rank, o) || !o->moved(1, 1))
        return 0;
    for (int block = 0; block < blocks; block++)
        for (uint64_t i = 0; i < call->count; i++) {
            const double got = get(result, call->plan->dtype, (uint64_t)block * call->count + i);
            const double wanted = expected(rank, call, block, i);

            if (is_right(call->plan->dtype, got, wanted))
                continue;
            if (!wrong++)
                fprintf(stderr,
                        "tutti bench: %s of %" G_GUINT64_FORMAT
                        " bytes: rank %d has %g in element %" G_GUINT64_FORMAT
                        " of block %d, and not %g\n",
                        o->name, call->bytes, rank->rank, got, i, block, wanted);
        }
    return wrong;
}
