/* SPDX-License-Identifier: Apache-2.0 */
/* A message takes no memory once those of its size have gone both ways. */
#include "cases.h"

#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
    !defined(__SANITIZE_THREAD__) /* which have allocators of their own */
static _Atomic uint64_t allocations;

/* The allocator of the program, and so of the plugin and its library: glibc's, counted. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    allocations++;
    return __libc_realloc(memory, bytes);
}

static void exchange(struct member *member, uint64_t bytes, uint8_t *out, uint8_t *in)
{
    const int other = 1 - member->rank;
    struct operation send, receive;

    receive_from(member, other, in, bytes, &receive);
    send_to(member, other, out, bytes, 0, &send);
    check(wait_for(member, &send) == TUTTI_OK && wait_for(member, &receive) == TUTTI_OK, "%s%s",
          member->words, member->lost_words);
}

static void steady_body(struct member *member)
{
    enum { ROUNDS = 100, WARM = 30, LONGEST = 200000 };
    static const uint64_t sizes[] = {0, 8, 1000, 8192, 65536, LONGEST};
    static uint8_t out[LONGEST], in[LONGEST];
    uint64_t before = 0;

    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM)
            before = allocations;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            exchange(member, sizes[i], out, in);
    }
    check(allocations == before, "%llu in %d messages", (unsigned long long)(allocations - before),
          (ROUNDS - WARM) * (int)(sizeof sizes / sizeof *sizes));
    all_meet(member);
}

void case_steady(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, -1, steady_body);
}
#else
void case_steady(const tutti_transport_ops *ops)
{
    (void)ops;
}
#endif
