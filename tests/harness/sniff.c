/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/sniff.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/net.h"

enum {
    PACKET_MAX = 128 << 10, /* of the loopback, with offload */
    QUEUE_BYTES = 64 << 20,
    KEPT_MAX = 256 << 20
};

struct sniff {
    int fd;
    pthread_t thread;
    _Atomic bool stops;
    bool missed;
    uint8_t *kept; /* packets, one behind the other, each with its size before it */
    size_t used, capacity;
};

/* Room for a packet behind the others; NULL: there is none. */
static uint8_t *room(struct sniff *sniff)
{
    if (sniff->capacity - sniff->used < sizeof(uint32_t) + PACKET_MAX) {
        const size_t capacity = 2 * sniff->capacity + 16 * PACKET_MAX;
        uint8_t *kept = capacity < KEPT_MAX ? realloc(sniff->kept, capacity) : NULL;

        if (!kept)
            return NULL;
        sniff->kept = kept;
        sniff->capacity = capacity;
    }
    return sniff->kept + sniff->used;
}

/* One packet; false: there is none now. */
static bool take(struct sniff *sniff)
{
    uint8_t *to = room(sniff);
    uint8_t spare;
    const ssize_t n = to ? recv(sniff->fd, to + sizeof(uint32_t), PACKET_MAX, MSG_TRUNC)
                         : recv(sniff->fd, &spare, 1, MSG_TRUNC);
    const uint32_t size = (uint32_t)n;

    if (n < 0)
        return false;
    if (!to || n > PACKET_MAX) {
        sniff->missed = true;
        return true;
    }
    memcpy(to, &size, sizeof size);
    sniff->used += sizeof size + size;
    return true;
}

static void *read_all(void *user)
{
    struct sniff *sniff = user;
    struct pollfd event = {.fd = sniff->fd, .events = POLLIN};

    while (!atomic_load(&sniff->stops)) {
        (void)poll(&event, 1, 20);
        while (take(sniff))
            ;
    }
    while (take(sniff))
        ;
    return NULL;
}

/* A packet socket in the namespace. */
static int open_socket(const char *netns)
{
    const int back = net_enter(netns), bytes = QUEUE_BYTES;

    if (back < 0)
        return -1;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
    net_leave(back);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    return fd;
}

struct sniff *sniff_start(const char *netns, char *ret_reason, size_t size)
{
    struct sniff *sniff = calloc(1, sizeof *sniff);

    if (!sniff)
        return NULL;
    sniff->fd = open_socket(netns);
    if (sniff->fd >= 0 && !pthread_create(&sniff->thread, NULL, read_all, sniff))
        return sniff;
    snprintf(ret_reason, size, "no packet socket here: %s", strerror(errno));
    if (sniff->fd >= 0)
        close(sniff->fd);
    free(sniff);
    return NULL;
}

bool sniff_stop(struct sniff *sniff)
{
    struct tpacket_stats stats = {0};
    socklen_t bytes = sizeof stats;

    atomic_store(&sniff->stops, true);
    pthread_join(sniff->thread, NULL);
    const bool known = !getsockopt(sniff->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes);
    return known && !stats.tp_drops && !sniff->missed;
}

size_t sniff_bytes(const struct sniff *sniff)
{
    return sniff->used;
}

bool sniff_saw(const struct sniff *sniff, const void *bytes, size_t count)
{
    uint32_t size;

    for (size_t at = 0; at < sniff->used; at += sizeof size + size) {
        memcpy(&size, sniff->kept + at, sizeof size);
        if (memmem(sniff->kept + at + sizeof size, size, bytes, count))
            return true;
    }
    return false;
}

void sniff_free(struct sniff *sniff)
{
    if (!sniff)
        return;
    close(sniff->fd);
    free(sniff->kept);
    free(sniff);
}
