/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/stalls.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

enum {
    PERIOD_NS = 2000000,
    NOTED_NS = 10000000, /* what is shorter is the scheduler's turns, and no stall */
    STALLS_MAX = 4096,   /* the oldest are forgotten */
    CPUS_MAX = 64        /* watched */
};

struct stall {
    int64_t from_ns, until_ns;
};

static struct stall stalls[STALLS_MAX];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    const struct timespec t = {ns / 1000000000, (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void *watch_one(void *cpu)
{
    cpu_set_t alone;

    CPU_ZERO(&alone);
    CPU_SET((size_t)(uintptr_t)cpu, &alone);
    if (sched_setaffinity(0, sizeof alone, &alone))
        return NULL;
    for (int64_t due = now_ns(), now;; due = now) {
        due += PERIOD_NS;
        sleep_until(due);
        now = now_ns();
        if (now - due < NOTED_NS)
            continue;
        pthread_mutex_lock(&lock);
        stalls[count++ % STALLS_MAX] = (struct stall){due, now};
        pthread_mutex_unlock(&lock);
    }
}

static void start_watching(void)
{
    cpu_set_t mine;
    pthread_t thread;

    if (sched_getaffinity(0, sizeof mine, &mine))
        return;
    for (size_t cpu = 0, watched = 0; cpu < CPU_SETSIZE && watched < CPUS_MAX; cpu++) {
        if (!CPU_ISSET(cpu, &mine))
            continue;
        if (!pthread_create(&thread, NULL, watch_one, (void *)(uintptr_t)cpu))
            pthread_detach(thread);
        watched++;
    }
}

void stalls_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_watching);
}

static int by_beginning(const void *a, const void *b)
{
    const struct stall *one = a, *other = b;

    return (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
}

int64_t stalls_ms(int64_t from_ns, int64_t until_ns)
{
    static struct stall sorted[STALLS_MAX];
    int64_t total = 0;
    size_t n;

    /* A thread that is still held back has not noted it yet. */
    sleep_until(now_ns() + 2 * PERIOD_NS);
    pthread_mutex_lock(&lock);
    n = count < STALLS_MAX ? count : STALLS_MAX;
    for (size_t i = 0; i < n; i++)
        sorted[i] = stalls[i];
    pthread_mutex_unlock(&lock);
    qsort(sorted, n, sizeof sorted[0], by_beginning);
    for (size_t i = 0; i < n && sorted[i].from_ns < until_ns; i++) {
        const int64_t begin = sorted[i].from_ns > from_ns ? sorted[i].from_ns : from_ns;
        const int64_t end = sorted[i].until_ns < until_ns ? sorted[i].until_ns : until_ns;

        if (end <= begin)
            continue;
        total += end - begin;
        from_ns = end;
    }
    return total / 1000000;
}
