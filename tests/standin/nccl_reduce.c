/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements, two at a time: each step of a ring rounds to the type, 16-bit floats, too. MIN and MAX of floats give
 * the number where one is a NaN. Averages of floats are sums of inputs that were multiplied by a rounded 1/n. 8-bit
 * floats are only moved.
 */
#include "nccl.h"

#include "kernel_elements.h"

#include <math.h>
#include <string.h>

size_t nccl_type_bytes(ncclDataType_t type)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return bytes[type];
}

/* X(number, how it lies in memory, what it is computed in, widen, narrow) */
#define FLOATS_(X)                                                                                 \
    X(ncclFloat16, uint16_t, float, f16_widen, f16_narrow)                                         \
    X(ncclBfloat16, uint16_t, float, bf16_widen, bf16_narrow)                                      \
    X(ncclFloat32, float, float, , )                                                               \
    X(ncclFloat64, double, double, , )

/* X(number, type) */
#define INTEGERS_(X)                                                                               \
    X(ncclInt8, int8_t)                                                                            \
    X(ncclUint8, uint8_t)                                                                          \
    X(ncclInt32, int32_t)                                                                          \
    X(ncclUint32, uint32_t)                                                                        \
    X(ncclInt64, int64_t)                                                                          \
    X(ncclUint64, uint64_t)

static double float_op(ncclRedOp_t op, double a, double b)
{
    switch (op) {
    case ncclMax:
        return fmax(a, b);
    case ncclMin:
        return fmin(a, b);
    default:
        return a;
    }
}

/* Sums and products in the type itself: rounding twice would differ. */
#define FLOAT_COMBINE(number, bits, wide, widen, narrow)                                           \
    static void combine_##number(ncclRedOp_t op, unsigned char *into, const unsigned char *with,   \
                                 size_t count)                                                     \
    {                                                                                              \
        for (size_t i = 0; i < count; i++, into += sizeof(bits), with += sizeof(bits)) {           \
            bits a, b;                                                                             \
            wide x, y, z;                                                                          \
                                                                                                   \
            memcpy(&a, into, sizeof a);                                                            \
            memcpy(&b, with, sizeof b);                                                            \
            x = widen(a);                                                                          \
            y = widen(b);                                                                          \
            z = op == ncclProd                   ? x * y                                           \
                : op == ncclMax || op == ncclMin ? (wide)float_op(op, (double)x, (double)y)        \
                                                 : x + y;                                          \
            a = narrow(z);                                                                         \
            memcpy(into, &a, sizeof a);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void scale_##number(unsigned char *into, const void *factor, size_t count)              \
    {                                                                                              \
        bits a, f;                                                                                 \
                                                                                                   \
        memcpy(&f, factor, sizeof f);                                                              \
        for (size_t i = 0; i < count; i++, into += sizeof a) {                                     \
            memcpy(&a, into, sizeof a);                                                            \
            a = narrow(widen(a) * widen(f));                                                       \
            memcpy(into, &a, sizeof a);                                                            \
        }                                                                                          \
    }

/* Sums and products wrap, so they are computed without a sign. */
#define INTEGER_COMBINE(number, type)                                                              \
    static void combine_##number(ncclRedOp_t op, unsigned char *into, const unsigned char *with,   \
                                 size_t count)                                                     \
    {                                                                                              \
        for (size_t i = 0; i < count; i++, into += sizeof(type), with += sizeof(type)) {           \
            type a, b;                                                                             \
                                                                                                   \
            memcpy(&a, into, sizeof a);                                                            \
            memcpy(&b, with, sizeof b);                                                            \
            a = op == ncclProd  ? (type)((uint64_t)a * (uint64_t)b)                                \
                : op == ncclMax ? (a > b ? a : b)                                                  \
                : op == ncclMin ? (a < b ? a : b)                                                  \
                                : (type)((uint64_t)a + (uint64_t)b);                               \
            memcpy(into, &a, sizeof a);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void divide_##number(unsigned char *into, int members, size_t count)                    \
    {                                                                                              \
        type a;                                                                                    \
                                                                                                   \
        for (size_t i = 0; i < count; i++, into += sizeof a) {                                     \
            memcpy(&a, into, sizeof a);                                                            \
            a = (type)(a / (type)members);                                                         \
            memcpy(into, &a, sizeof a);                                                            \
        }                                                                                          \
    }

FLOATS_(FLOAT_COMBINE)
INTEGERS_(INTEGER_COMBINE)

void nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *into, const void *with, size_t count)
{
    switch (type) {
#define CASE(number, ...)                                                                          \
    case number:                                                                                   \
        combine_##number(op, into, with, count);                                                   \
        break;
        FLOATS_(CASE)
        INTEGERS_(CASE)
#undef CASE
    default:
        break;
    }
}

void nccl_scale(ncclDataType_t type, void *into, const void *factor, size_t count)
{
    switch (type) {
#define CASE(number, ...)                                                                          \
    case number:                                                                                   \
        scale_##number(into, factor, count);                                                       \
        break;
        FLOATS_(CASE)
#undef CASE
    default:
        break;
    }
}

bool nccl_divides(ncclDataType_t type, void *into, int members, size_t count)
{
    switch (type) {
#define CASE(number, ...)                                                                          \
    case number:                                                                                   \
        divide_##number(into, members, count);                                                     \
        return true;
        INTEGERS_(CASE)
#undef CASE
    default:
        return false;
    }
}

bool nccl_fraction(ncclDataType_t type, int members, void *ret_value)
{
    switch (type) {
#define CASE(number, bits, wide, widen, narrow)                                                    \
    case number: {                                                                                 \
        const bits value = narrow((wide)1 / (wide)members);                                        \
                                                                                                   \
        memcpy(ret_value, &value, sizeof value);                                                   \
        return true;                                                                               \
    }
        FLOATS_(CASE)
#undef CASE
    default:
        return false;
    }
}
