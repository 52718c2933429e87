/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions as UCC computes them on a CPU: in the type itself, bf16 in f32. MIN and MAX compare by «<» and
 * «>», so that a NaN in the second place is taken or lost by its position. An average multiplies the sum by
 * 1/n, also of integers.
 */
#include "ucc.h"

#include <complex.h>
#include <string.h>

#define INTEGERS(X)                                                                                \
    X(UCCI_INT8, int8_t)                                                                           \
    X(UCCI_INT16, int16_t)                                                                         \
    X(UCCI_INT32, int32_t)                                                                         \
    X(UCCI_INT64, int64_t)                                                                         \
    X(UCCI_UINT8, uint8_t)                                                                         \
    X(UCCI_UINT16, uint16_t)                                                                       \
    X(UCCI_UINT32, uint32_t)                                                                       \
    X(UCCI_UINT64, uint64_t)
#define REALS(X)                                                                                   \
    X(UCCI_FLOAT32, float)                                                                         \
    X(UCCI_FLOAT64, double)
#define COMPLEX(X)                                                                                 \
    X(UCCI_FLOAT32_COMPLEX, complex_float)                                                         \
    X(UCCI_FLOAT64_COMPLEX, complex_double)

typedef float complex complex_float;
typedef double complex complex_double;

size_t datatype_bytes(uint64_t datatype)
{
    switch (datatype) {
#define BYTES(number, type)                                                                        \
    case number:                                                                                   \
        return sizeof(type);
        INTEGERS(BYTES)
        REALS(BYTES) COMPLEX(BYTES) case UCCI_FLOAT16 : case UCCI_BFLOAT16 : return 2;
    case UCCI_INT128:
    case UCCI_UINT128:
        return 16;
    default:
        return 0;
#undef BYTES
    }
}

static bool is_integer(uint64_t datatype)
{
    switch (datatype) {
#define IS(number, type) case number:
        INTEGERS(IS)
        return true;
#undef IS
    default:
        return false;
    }
}

bool reduces(uint64_t datatype, uint32_t op)
{
    if (is_integer(datatype))
        return op <= UCCI_BXOR || op == UCCI_AVG;
    switch (datatype) {
    case UCCI_FLOAT32:
    case UCCI_FLOAT64:
    case UCCI_BFLOAT16:
        return op <= UCCI_MIN || op == UCCI_AVG;
    case UCCI_FLOAT32_COMPLEX:
    case UCCI_FLOAT64_COMPLEX:
        return op <= UCCI_PROD || op == UCCI_AVG;
    default:
        return false;
    }
}

/* ---- two elements --------------------------------------------------------------------------- */

/* Integers wrap around, so they are computed without a sign. */
#define INTEGER(number, type)                                                                      \
    static type two_##type(type a, type b, uint32_t op)                                            \
    {                                                                                              \
        switch (op) {                                                                              \
        case UCCI_PROD:                                                                            \
            return (type)((uint64_t)a * (uint64_t)b);                                              \
        case UCCI_MAX:                                                                             \
            return a > b ? a : b;                                                                  \
        case UCCI_MIN:                                                                             \
            return a < b ? a : b;                                                                  \
        case UCCI_LAND:                                                                            \
            return a && b;                                                                         \
        case UCCI_LOR:                                                                             \
            return a || b;                                                                         \
        case UCCI_LXOR:                                                                            \
            return !a != !b;                                                                       \
        case UCCI_BAND:                                                                            \
            return (type)(a & b);                                                                  \
        case UCCI_BOR:                                                                             \
            return (type)(a | b);                                                                  \
        case UCCI_BXOR:                                                                            \
            return (type)(a ^ b);                                                                  \
        default:                                                                                   \
            return (type)((uint64_t)a + (uint64_t)b);                                              \
        }                                                                                          \
    }                                                                                              \
    static type averaged_##type(type sum, size_t members)                                          \
    {                                                                                              \
        return (type)((double)sum * (1.0 / (double)members));                                      \
    }
#define REAL(number, type)                                                                         \
    static type two_##type(type a, type b, uint32_t op)                                            \
    {                                                                                              \
        switch (op) {                                                                              \
        case UCCI_PROD:                                                                            \
            return a * b;                                                                          \
        case UCCI_MAX:                                                                             \
            return a > b ? a : b;                                                                  \
        case UCCI_MIN:                                                                             \
            return a < b ? a : b;                                                                  \
        default:                                                                                   \
            return a + b;                                                                          \
        }                                                                                          \
    }                                                                                              \
    static type averaged_##type(type sum, size_t members)                                          \
    {                                                                                              \
        return sum * (type)(1.0 / (double)members);                                                \
    }
#define COMPLEX_NUMBER(number, type)                                                               \
    static type two_##type(type a, type b, uint32_t op)                                            \
    {                                                                                              \
        return op == UCCI_PROD ? a * b : a + b;                                                    \
    }                                                                                              \
    static type averaged_##type(type sum, size_t members)                                          \
    {                                                                                              \
        return sum * (type)(1.0 / (double)members);                                                \
    }
INTEGERS(INTEGER)
REALS(REAL)
COMPLEX(COMPLEX_NUMBER)

/* ---- bf16, by way of f32 -------------------------------------------------------------------- */

static float widened(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

/* To the nearest, and of two to the even one. */
static uint16_t narrowed(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Elements of any alignment. */
static void take(void *element, const void *array, size_t i, size_t bytes)
{
    memcpy(element, (const char *)array + i * bytes, bytes);
}

static void put(void *array, size_t i, const void *element, size_t bytes)
{
    memcpy((char *)array + i * bytes, element, bytes);
}

static float taken_bfloat16(const void *array, size_t i)
{
    uint16_t element;

    take(&element, array, i, sizeof element);
    return widened(element);
}

static void reduce_bfloat16(uint32_t op, void *to, const void *const *sources, size_t members,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = taken_bfloat16(sources[0], i);

        for (size_t m = 1; m < members; m++)
            value = two_float(value, taken_bfloat16(sources[m], i), op);
        const uint16_t result = narrowed(op == UCCI_AVG ? value / (float)members : value);
        put(to, i, &result, sizeof result);
    }
}

/* ---- arrays --------------------------------------------------------------------------------- */

#define ARRAY(number, type)                                                                        \
    case number:                                                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            type value, other;                                                                     \
                                                                                                   \
            take(&value, sources[0], i, sizeof value);                                             \
            for (size_t m = 1; m < members; m++) {                                                 \
                take(&other, sources[m], i, sizeof other);                                         \
                value = two_##type(value, other, op);                                              \
            }                                                                                      \
            if (op == UCCI_AVG)                                                                    \
                value = averaged_##type(value, members);                                           \
            put(into, i, &value, sizeof value);                                                    \
        }                                                                                          \
        return;

void reduce(uint64_t datatype, uint32_t op, void *into, const void *const *sources, size_t members,
            size_t count)
{
    switch (datatype) {
        INTEGERS(ARRAY)
        REALS(ARRAY)
        COMPLEX(ARRAY)
    default:
        reduce_bfloat16(op, into, sources, members, count);
    }
}
