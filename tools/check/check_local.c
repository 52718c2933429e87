/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core does for transports that map memory: it passes descriptors between local peers and
 * wakes one that sleeps. As in a core that serves many, what is asked for is checked: a transport
 * that gives local peers another number of descriptors, or wakes a process that is none of them, is
 * told so.
 */
#include "check/check_core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { DESCRIPTORS_MAX = 8 };

struct tutti_exchange {
    uint32_t number, count;
    int own[DESCRIPTORS_MAX];
};

/* Room for the descriptors of one message. */
union control {
    char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

static int other_of(const struct core *core)
{
    return 1 - core->index;
}

static void expect_local(const struct core *core, const tutti_host_mates *local,
                         const char *function)
{
    if (local != &core->local)
        check_fails("it calls %s() with local peers that are not those of map_start()", function);
}

static void send_descriptors(const struct core *core, const tutti_exchange *exchange)
{
    union control control = {{0}};
    uint32_t number = exchange->number;
    struct iovec piece = {&number, sizeof number};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(exchange->count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(exchange->count * sizeof(int));
    memcpy(CMSG_DATA(header), exchange->own, exchange->count * sizeof(int));
    if (sendmsg(check_socket(other_of(core)), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        check_fails("descriptors cannot be passed to the other process: %s", g_strerror(errno));
}

tutti_status core_share_start(void *self, tutti_host_mates *local, const int32_t *descriptors,
                              uint32_t count, tutti_exchange **ret_exchange)
{
    struct core *core = self;
    tutti_exchange *exchange = calloc(1, sizeof *exchange);

    expect_local(core, local, "share_start");
    if (!count || count > DESCRIPTORS_MAX)
        check_fails("it shares %u descriptors at once; 1 to %d are possible", count,
                    DESCRIPTORS_MAX);
    if (!exchange)
        check_fails("no memory to try it");
    exchange->number = core->exchanges_started++;
    exchange->count = count;
    for (uint32_t i = 0; i < count; i++) {
        exchange->own[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 0);
        if (exchange->own[i] < 0)
            check_fails("it shares %d, which is not an open descriptor: %s", descriptors[i],
                        g_strerror(errno));
    }
    send_descriptors(core, exchange);
    *ret_exchange = exchange;
    return TUTTI_OK;
}

/* Receives the descriptors of the other process, if they have come. */
static bool receive_descriptors(const struct core *core, const tutti_exchange *exchange,
                                int *ret_descriptors)
{
    union control control;
    uint32_t number = 0;
    struct iovec piece = {&number, sizeof number};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};

    if (recvmsg(check_socket(other_of(core)), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) {
        if (errno == EAGAIN)
            return false;
        check_fails("descriptors cannot be received from the other process: %s", g_strerror(errno));
    }
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    const size_t bytes = header ? header->cmsg_len - CMSG_LEN(0) : 0;
    if (number != exchange->number || bytes != exchange->count * sizeof(int))
        check_fails(
            "local peers share %zu and %u descriptors in one exchange; they must be as many",
            bytes / sizeof(int), exchange->count);
    if (header)
        memcpy(ret_descriptors, CMSG_DATA(header), bytes);
    return true;
}

tutti_status core_share_test(void *self, tutti_exchange *exchange, int32_t *ret_descriptors)
{
    struct core *core = self;
    int others[DESCRIPTORS_MAX];
    const uint32_t count = exchange->count;

    if (exchange->number != core->exchanges_over || !receive_descriptors(core, exchange, others))
        return TUTTI_ERR_NOT_READY;
    memcpy(ret_descriptors + (uint32_t)core->index * count, exchange->own, count * sizeof(int));
    memcpy(ret_descriptors + (uint32_t)other_of(core) * count, others, count * sizeof(int));
    core->exchanges_over++;
    free(exchange);
    return TUTTI_OK;
}

void core_wake_mate(void *self, tutti_host_mates *local, uint32_t index)
{
    const struct core *core = self;

    expect_local(core, local, "wake_mate");
    if (index >= CORE_MEMBERS)
        check_fails("it wakes local peer %u of %d", index, CORE_MEMBERS);
    check_ring((int)index);
}
