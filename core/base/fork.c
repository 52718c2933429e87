/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fork.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic uint32_t fork_generation;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*child_handler)(void);

/* A bitmap over descriptor numbers. fork() takes the lock first, so that the child never sees it half changed,
 * nor a number that was closed and belongs to somebody else by now. */
enum { BITS = 64, SPARE_WORDS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *registered;
static size_t words;

static void before(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    for (size_t i = 0; i < words; i++) {
        while (registered[i]) {
            close((int)(i * BITS) + __builtin_ctzll(registered[i]));
            registered[i] &= registered[i] - 1;
        }
    }
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&fork_generation, 1);
    if (child_handler)
        child_handler();
}

static void watch(void)
{
    pthread_atfork(before, in_parent, in_child);
}

void fork_watch(void (*handler)(void))
{
    child_handler = handler;
    pthread_once(&once, watch);
}

void fork_close_add(int fd)
{
    const size_t word = (size_t)fd / BITS;

    if (fd < 0)
        return;
    pthread_once(&once, watch);
    pthread_mutex_lock(&mutex);
    if (word >= words) {
        uint64_t *larger = realloc(registered, (word + SPARE_WORDS) * sizeof *larger);

        if (larger) {
            memset(larger + words, 0, (word + SPARE_WORDS - words) * sizeof *larger);
            registered = larger;
            words = word + SPARE_WORDS;
        }
    }
    if (word < words)
        registered[word] |= UINT64_C(1) << fd % BITS;
    pthread_mutex_unlock(&mutex);
}

void fork_close_now(int fd)
{
    const size_t word = (size_t)fd / BITS;

    pthread_mutex_lock(&mutex);
    if (word < words)
        registered[word] &= ~(UINT64_C(1) << fd % BITS);
    close(fd);
    pthread_mutex_unlock(&mutex);
}
