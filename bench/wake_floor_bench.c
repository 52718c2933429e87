/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What late_barrier_bench is to be compared with: seven processes that sleep in epoll on an eventfd
 * each, and an eighth that rings them all after 50 ms. Printed is the time from the first ring to the
 * last one's return, in microseconds: what this host takes to wake as many, whatever the library.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPERS = 7, ROUNDS = 200, LATE_MS = 50, LOOK_MS = 1, GIVE_UP_MS = 10000 };

struct shared {
    _Atomic int round;
    _Atomic int64_t woken_ns[SLEEPERS]; /* in this round; 0: not yet */
};

static void fail(const char *what)
{
    fprintf(stderr, "wake_floor_bench: %s: %s\n", what, strerror(errno));
    exit(1); /* the sleepers go with this process */
}

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

static _Noreturn void sleeper(struct shared *shared, int index, int bell, pid_t parent)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    uint64_t rings;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event))
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

/* When the last one was awake; looks so seldom that it takes no CPU from those that wake. */
static int64_t await_all(const struct shared *shared)
{
    int64_t last = 0, until = now_ns() + GIVE_UP_MS * INT64_C(1000000);

    for (int i = 0; i < SLEEPERS; i++) {
        int64_t woken;

        while (!(woken = atomic_load(&shared->woken_ns[i]))) {
            errno = ETIMEDOUT;
            if (now_ns() > until)
                fail("a sleeper does not wake");
            pause_ms(LOOK_MS);
        }
        last = woken > last ? woken : last;
    }
    return last;
}

static int64_t ring_all(struct shared *shared, const int *bells)
{
    const uint64_t one = 1;

    for (int i = 0; i < SLEEPERS; i++)
        atomic_store(&shared->woken_ns[i], 0);
    pause_ms(LATE_MS);
    int64_t from = now_ns();
    atomic_fetch_add(&shared->round, 1);
    for (int i = 0; i < SLEEPERS; i++)
        if (write(bells[i], &one, sizeof one) < 0)
            fail("cannot ring");
    pause_ms(LOOK_MS);
    return await_all(shared) - from;
}

static void start_sleepers(struct shared *shared, int ret_bells[SLEEPERS], pid_t ret_pids[SLEEPERS])
{
    const pid_t parent = getpid();

    for (int i = 0; i < SLEEPERS; i++) {
        ret_bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (ret_bells[i] < 0)
            fail("cannot make an eventfd");
        ret_pids[i] = fork();
        if (ret_pids[i] < 0)
            fail("cannot start a sleeper");
        if (!ret_pids[i])
            sleeper(shared, i, ret_bells[i], parent);
    }
}

int main(void)
{
    static int64_t took[ROUNDS];
    pid_t pids[SLEEPERS];
    int bells[SLEEPERS];
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        fail("cannot map memory");
    start_sleepers(shared, bells, pids);
    for (int i = 0; i < ROUNDS; i++)
        took[i] = ring_all(shared, bells);
    for (int i = 0; i < SLEEPERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    qsort(took, ROUNDS, sizeof *took, compare);
    printf("bare eventfds, %d sleepers rung %d times: p50 %.0f us, p99 %.0f us\n", SLEEPERS, ROUNDS,
           (double)took[ROUNDS / 2] * 1e-3, (double)took[ROUNDS * 99 / 100] * 1e-3);
    return 0;
}
