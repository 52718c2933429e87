/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far apart ranks 0 and 1 are: the time of a flag from one to the other and back, halved, in memory that
 * both map. Rank 1 opens rank 0's file by way of /proc, which works however the ranks were started, if both
 * are on one host and of one user. A number in the file tells rank 1 that it is the right one.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"

enum { LINK_BYTES = 4096, LINK_ROUNDS = 1000, LINK_LATE_NS = 100 * 1000 * 1000 };

struct bench_link {
    int rank;
    uint64_t round;
    bool late; /* the ranks share a CPU, or the other one is gone */
    struct link_page {
        _Alignas(128) _Atomic uint64_t nonce;
        _Alignas(128) _Atomic uint64_t flags[2][16];
    } * page;
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct link_page *map_page(int fd)
{
    void *page = mmap(NULL, LINK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* Rank 0's file, which says where it is in `words`: process, descriptor, nonce. */
static struct link_page *make_page(int64_t *words, int *ret_fd)
{
    struct link_page *page = NULL;

    *ret_fd = memfd_create("tutti-bench", MFD_CLOEXEC);
    if (*ret_fd >= 0 && !ftruncate(*ret_fd, LINK_BYTES))
        page = map_page(*ret_fd);
    words[0] = getpid();
    words[1] = *ret_fd;
    words[2] = now_ns() ^ (int64_t)getpid() << 32;
    if (page)
        atomic_store(&page->nonce, (uint64_t)words[2]);
    return page;
}

static struct link_page *find_page(const int64_t *words)
{
    char path[64];
    struct link_page *page = NULL;

    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)words[0], (long long)words[1]);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (lseek(fd, 0, SEEK_END) == LINK_BYTES)
        page = map_page(fd);
    close(fd);
    if (page && atomic_load(&page->nonce) != (uint64_t)words[2]) {
        munmap(page, LINK_BYTES);
        page = NULL;
    }
    return page;
}

struct bench_link *bench_link_open(tutti_group *world, int rank, int size)
{
    struct bench_link *link = g_new0(struct bench_link, 1);
    int64_t words[3] = {0, -1, 0}, shape, votes = 0;
    tutti_tensor all = tutti_tensor_1d(words, TUTTI_I64, &shape, 3);
    int fd = -1;

    link->rank = rank;
    if (rank == 0 && size > 1)
        link->page = make_page(words, &fd);
    tutti_status status = tutti_broadcast(world, &all, 0, NULL, NULL);
    if (!status && rank == 1)
        link->page = find_page(words);
    all = tutti_tensor_1d(&votes, TUTTI_I64, &shape, 1);
    votes = link->page != NULL;
    if (!status)
        status = tutti_all_reduce(world, &all, TUTTI_SUM, NULL, NULL);
    if (fd >= 0)
        close(fd);
    if (!status && votes == 2)
        return link;
    bench_link_close(link);
    return NULL;
}

double bench_link_probe(struct bench_link *link)
{
    if (!link || link->rank > 1 || link->late)
        return 0;
    _Atomic uint64_t *mine = link->page->flags[link->rank], *other = link->page->flags[!link->rank];
    const uint64_t last = link->round + LINK_ROUNDS;
    const int64_t begin = now_ns();

    while (link->round < last) {
        atomic_store_explicit(mine, ++link->round, memory_order_release);
        for (uint32_t spins = 0; atomic_load_explicit(other, memory_order_acquire) < link->round;)
            if (++spins % 4096 == 0 && now_ns() - begin > LINK_LATE_NS) {
                link->late = true;
                return 0;
            }
    }
    return (double)(now_ns() - begin) / LINK_ROUNDS;
}

void bench_link_close(struct bench_link *link)
{
    if (!link)
        return;
    if (link->page)
        munmap(link->page, LINK_BYTES);
    g_free(link);
}
