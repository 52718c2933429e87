/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/link.h"

#include <fcntl.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum {
    PAGE = 4096,
    WORDS_APART = 32,     /* between the two flags, so that prefetched pairs of lines stay apart */
    ROUNDS = 200,         /* of one measurement */
    MEASUREMENTS = 5,     /* the best counts: the others may have been interrupted */
    PATIENCE_NS = 2000000 /* for a peer that has no CPU */
};

struct bench_link {
    _Atomic uint64_t *words; /* NULL: this rank has no part in it */
    int side;                /* 0 or 1 */
    uint64_t round;
};

/* What the peer needs to find rank 0's page, and to know that it is the right one. */
struct invitation {
    uint64_t pid, fd, token;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void *map(int fd)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

static void *make_page(struct invitation *ret_invitation)
{
    const int fd = memfd_create("tutti-bench-link", MFD_CLOEXEC);
    uint64_t *page = fd >= 0 && ftruncate(fd, PAGE) == 0 ? map(fd) : NULL;

    if (page) {
        *ret_invitation =
            (struct invitation){.pid = (uint64_t)getpid(),
                                .fd = (uint64_t)fd,
                                .token = (uint64_t)g_random_int() << 32 | g_random_int()};
        page[PAGE / sizeof *page - 1] = ret_invitation->token;
    } else if (fd >= 0) {
        close(fd);
    }
    return page;
}

static void *find_page(const struct invitation *invitation)
{
    char path[64];
    uint64_t *page = NULL;

    if (!invitation->pid)
        return NULL;
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)invitation->pid,
             (unsigned long long)invitation->fd);

    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return NULL;
    if (lseek(fd, 0, SEEK_END) == PAGE)
        page = map(fd);
    close(fd);
    if (page && page[PAGE / sizeof *page - 1] != invitation->token) {
        munmap(page, PAGE);
        page = NULL;
    }
    return page;
}

/* The same on all ranks: whether all of them have said yes. */
static tutti_status all_say(tutti_group *world, bool *said)
{
    int32_t answer = *said;
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&answer, TUTTI_I32, &shape, 1);
    const tutti_status status = tutti_all_reduce(world, &tensor, TUTTI_MIN, NULL, NULL);

    *said = answer != 0;
    return status;
}

tutti_status link_open(tutti_group *world, int peer, struct bench_link **ret_link)
{
    const int rank = tutti_group_rank(world);
    struct invitation invitation = {0};
    int64_t shape;
    const tutti_tensor tensor =
        tutti_tensor_1d(&invitation, TUTTI_U64, &shape, sizeof invitation / sizeof(uint64_t));
    void *page = rank == 0 ? make_page(&invitation) : NULL;
    tutti_status status = tutti_broadcast(world, &tensor, 0, NULL, NULL);

    if (!status && rank == peer)
        page = find_page(&invitation);

    bool shared = page || (rank != 0 && rank != peer);

    if (!status)
        status = all_say(world, &shared);
    if (rank == 0 && invitation.pid)
        close((int)invitation.fd);
    *ret_link = NULL;
    if (!status && shared) {
        *ret_link = g_new(struct bench_link, 1);
        **ret_link = (struct bench_link){.words = page, .side = rank != 0};
    } else if (page) {
        munmap(page, PAGE);
    }
    return status;
}

void link_close(struct bench_link *link)
{
    if (link && link->words)
        munmap((void *)link->words, PAGE);
    g_free(link);
}

/* One exchange; false when the peer has not answered in time, or has given up: then its word is far
 * ahead, and there is no exchange to measure. */
static bool exchange(struct bench_link *link, uint64_t deadline_ns)
{
    _Atomic uint64_t *mine = link->words + WORDS_APART * link->side;
    const _Atomic uint64_t *other = link->words + WORDS_APART * !link->side;
    uint64_t answer;

    atomic_store_explicit(mine, ++link->round, memory_order_release);
    for (unsigned spins = 1;
         (answer = atomic_load_explicit(other, memory_order_acquire)) < link->round; spins++)
        if (spins % 4096 == 0 && now_ns() > deadline_ns)
            return false;
    return answer <= link->round + 1;
}

double link_probe(struct bench_link *link)
{
    double best = 0;

    if (!link || !link->words)
        return 0;

    const uint64_t deadline_ns = now_ns() + PATIENCE_NS, first = link->round;
    bool in_time = true;

    for (int i = 0; i < MEASUREMENTS && in_time; i++) {
        const uint64_t start = now_ns();

        for (int k = 0; k < ROUNDS && in_time; k++)
            in_time = exchange(link, deadline_ns);

        const double each = (double)(now_ns() - start) / ROUNDS;

        if (in_time && (best == 0 || each < best))
            best = each;
    }
    /* Both begin the next probe with the same number, also when one of them has given up. */
    link->round = first + ROUNDS * MEASUREMENTS + 2;
    atomic_store_explicit(link->words + WORDS_APART * link->side, link->round,
                          memory_order_release);
    return best;
}
