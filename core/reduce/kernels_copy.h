/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of one instruction set, for kernels.c. */
#ifndef TUTTI_REDUCE_KERNELS_COPY_H
#define TUTTI_REDUCE_KERNELS_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* One register of the instruction set. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#define STREAM(to, v) _mm512_stream_si512((__m512i *)(to), (__m512i)(v))
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#define STREAM(to, v) _mm256_stream_si256((__m256i *)(to), (__m256i)(v))
#elif defined(__x86_64__)
enum { VECTOR_BYTES = 16 };
#define STREAM(to, v) _mm_stream_si128((__m128i *)(to), (__m128i)(v))
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint64_t any_vector __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

/*
 * From this size on a loop that aligns its stores is as fast as memcpy to aligned targets, and
 * up to three times faster to misaligned ones (measured on Zen 3).
 */
enum { COPY_LOOP_MIN = 2048 };

/* Bytes until `to` is aligned for the loops below. */
static size_t head_of(const void *to)
{
    return -(uintptr_t)to % VECTOR_BYTES;
}

static void copy(void *dst, const void *src, size_t bytes)
{
    char *d = dst;
    const char *s = src;

    if (dst == src || bytes == 0) /* memory of no bytes may be NULL */
        return;
    if (bytes >= COPY_LOOP_MIN) {
        const size_t head = head_of(d);

        memcpy(d, s, VECTOR_BYTES); /* the loop writes again what lies beyond the head */
        d += head, s += head, bytes -= head;
        for (; bytes >= VECTOR_BYTES; d += VECTOR_BYTES, s += VECTOR_BYTES, bytes -= VECTOR_BYTES)
            *(vector *)d = *(const any_vector *)s;
    }
    memcpy(d, s, bytes);
}

static void copy_stream(void *dst, const void *src, size_t bytes)
{
#if defined(STREAM)
    char *d = dst;
    const char *s = src;

    if (dst == src || bytes == 0)
        return;
    if (bytes >= 2 * VECTOR_BYTES) {
        const size_t head = head_of(d);

        memcpy(d, s, head);
        d += head, s += head, bytes -= head;
        for (; bytes >= VECTOR_BYTES; d += VECTOR_BYTES, s += VECTOR_BYTES, bytes -= VECTOR_BYTES)
            STREAM(d, *(const any_vector *)s);
        _mm_sfence();
    }
    memcpy(d, s, bytes);
#else
    copy(dst, src, bytes);
#endif
}

#endif
