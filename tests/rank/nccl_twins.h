/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that lie on the GPU and in host memory with the same bytes, of all types, so that the results of the same calls can
 * be compared. */
#pragma once

#include <string.h>

#include "nccl_rank.h"

enum { BYTES_MAX = 1 << 17 };

/* What is put into calls of all combinations. */
struct sample {
    tutti_dtype dtype;
    size_t element;
    uint64_t nan; /* a quiet one in the low bytes of an element; 0: the dtype has none */
    uint16_t keep,
        set; /* of a small float's random bits, so that it is a number of moderate size */
};

static const struct sample samples[] = {
    {TUTTI_BOOL, 1, 0, 0, 0},
    {TUTTI_U8, 1, 0, 0, 0},
    {TUTTI_U16, 2, 0, 0, 0},
    {TUTTI_U32, 4, 0, 0, 0},
    {TUTTI_U64, 8, 0, 0, 0},
    {TUTTI_I8, 1, 0, 0, 0},
    {TUTTI_I16, 2, 0, 0, 0},
    {TUTTI_I32, 4, 0, 0, 0},
    {TUTTI_I64, 8, 0, 0, 0},
    {TUTTI_F16, 2, 0x7e00, 0x83ff, 0x3800},
    {TUTTI_BF16, 2, 0x7fc0, 0x80ff, 0x3f00},
    {TUTTI_F32, 4, 0x7fc00000, 0, 0},
    {TUTTI_F64, 8, UINT64_C(0x7ff8000000000000), 0, 0},
    {TUTTI_F8E4M3FN, 1, 0x7f, 0x8f, 0x30},
    {TUTTI_F8E5M2, 1, 0x7e, 0x87, 0x38},
    {TUTTI_C64, 8, 0, 0, 0},
    {TUTTI_C128, 16, 0, 0, 0},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* One side of a call: the same bytes on the GPU and in host memory. */
struct twin {
    void *on_gpu;
    unsigned char host[BYTES_MAX];
    int64_t shape, host_shape;
    tutti_tensor gpu_tensor, host_tensor;
};

static inline void make_twin(struct twin *twin)
{
    twin->on_gpu = gpu_allocate(BYTES_MAX);
}

static inline void describe(struct twin *twin, tutti_dtype dtype, int64_t count)
{
    twin->gpu_tensor = tutti_tensor_1d(twin->on_gpu, dtype, &twin->shape, count);
    twin->gpu_tensor.device = gpu_device();
    twin->host_tensor = tutti_tensor_1d(twin->host, dtype, &twin->host_shape, count);
}

static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* A real number of moderate size; `exact`: a small whole one. */
static inline double number(uint32_t *state, bool exact)
{
    return exact ? 1 + (int)(next_random(state) % 2)
                 : (next_random(state) % 20001 - 10000.0) / 97.0;
}

static inline void fill_element(const struct sample *s, unsigned char *to, uint32_t *state,
                                bool exact)
{
    const bool is_double = s->dtype == TUTTI_F64 || s->dtype == TUTTI_C128;
    const bool is_float = s->dtype == TUTTI_F32 || s->dtype == TUTTI_C64;

    for (size_t at = 0; at < s->element && (is_double || is_float);
         at += is_double ? sizeof(double) : sizeof(float)) {
        const double d = number(state, exact);
        const float f = (float)d;

        memcpy(to + at, is_double ? (const void *)&d : &f, is_double ? sizeof d : sizeof f);
    }
    if (is_double || is_float)
        return;
    for (size_t at = 0; at < s->element; at++)
        to[at] = (unsigned char)next_random(state);
    uint16_t bits = 0;
    memcpy(&bits, to, s->element < sizeof bits ? s->element : sizeof bits);
    bits = s->keep ? (uint16_t)((bits & s->keep) | s->set) : bits;
    memcpy(to, &bits, s->element < sizeof bits ? s->element : sizeof bits);
}

static inline void fill_twin(struct twin *twin, const struct sample *s, int64_t count, int rank,
                             tutti_reduce_op op, bool exact)
{
    uint32_t state = (uint32_t)rank * 77 + (uint32_t)op * 13 + s->dtype;

    describe(twin, s->dtype, count);
    for (int64_t i = 0; i < count; i++) {
        unsigned char *at = twin->host + (size_t)i * s->element;

        fill_element(s, at, &state, exact);
        if ((op == TUTTI_MIN || op == TUTTI_MAX) && s->nan && i % 5 == rank)
            memcpy(at, &s->nan, s->element);
    }
    gpu_write(twin->on_gpu, twin->host, (size_t)count * s->element);
}

static inline void compare(struct twin *twin, void *stream, const char *what,
                           const struct sample *s, tutti_reduce_op op, int64_t count)
{
    static unsigned char got[BYTES_MAX];
    const size_t bytes = (size_t)count * s->element;

    gpu_synchronize(stream);
    gpu_read(got, twin->on_gpu, bytes);
    if (memcmp(got, twin->host, bytes) == 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != twin->host[i]) {
            fprintf(stderr,
                    "%s of %lld x %s, %s: byte %zu is 0x%02x on the GPU, 0x%02x on the host\n",
                    what, (long long)count, tutti_dtype_name(s->dtype), tutti_reduce_op_name(op), i,
                    got[i], twin->host[i]);
            break;
        }
    check(!"the bits of the host's path");
}
