/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What late_barrier_bench is to be compared with: seven processes that sleep in epoll on an eventfd
 * each, and an eighth that rings them all after 50 ms. Printed is the time from the first ring to the
 * last one's return, in microseconds: what this host takes to wake as many, whatever the library.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPERS = 7, ROUNDS = 200, LATE_MS = 50, SETTLE_MS = 10 };

struct shared {
    _Atomic int round;
    _Atomic int64_t woken_ns[SLEEPERS];
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void sleeper(struct shared *shared, int index, int bell)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    uint64_t rings;

    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event))
        _exit(1);
    for (int round = 1;; round++) {
        while (atomic_load(&shared->round) < round)
            if (epoll_wait(epoll, &event, 1, -1) == 1 && read(bell, &rings, sizeof rings) < 0)
                _exit(1);
        atomic_store(&shared->woken_ns[index], now_ns());
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t ring_all(struct shared *shared, const int *bells)
{
    const uint64_t one = 1;
    int64_t last = 0;

    pause_ms(LATE_MS);
    int64_t from = now_ns();
    atomic_fetch_add(&shared->round, 1);
    for (int i = 0; i < SLEEPERS; i++)
        if (write(bells[i], &one, sizeof one) < 0)
            exit(1);
    pause_ms(SETTLE_MS);
    for (int i = 0; i < SLEEPERS; i++) {
        int64_t woken = atomic_load(&shared->woken_ns[i]);
        last = woken > last ? woken : last;
    }
    return last - from;
}

int main(void)
{
    static int64_t took[ROUNDS];
    pid_t pids[SLEEPERS];
    int bells[SLEEPERS];
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return 1;
    for (int i = 0; i < SLEEPERS; i++) {
        bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        pids[i] = fork();
        if (!pids[i])
            sleeper(shared, i, bells[i]);
    }
    for (int i = 0; i < ROUNDS; i++)
        took[i] = ring_all(shared, bells);
    for (int i = 0; i < SLEEPERS; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        continue;
    qsort(took, ROUNDS, sizeof *took, compare);
    printf("bare eventfds, %d sleepers rung %d times: p50 %.0f us, p99 %.0f us\n", SLEEPERS, ROUNDS,
           (double)took[ROUNDS / 2] * 1e-3, (double)took[ROUNDS * 99 / 100] * 1e-3);
    return 0;
}
