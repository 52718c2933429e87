/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors over the star of Unix sockets. SOCK_SEQPACKET keeps a message and its
 * descriptors together. A send that finds the queue full waits up to a second for the reader, who
 * is a mate in the same step of the same exchange.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/mates.h"

enum {
    SEND_PATIENCE_MS = 1000,
    SEND_RETRY_MS = 5,
    DEATH_MS = 200 /* from the end of a process's sockets to its pidfd, on a busy machine */
};

union control_buffer {
    char bytes[CMSG_SPACE(MATES_DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

tutti_status mates_send(struct mates *mates, int to, const void *data, size_t size,
                        const int *descriptors, uint32_t count)
{
    const struct mates_link *link = mates->peers[to].link;
    union control_buffer control;
    struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    int64_t deadline = clock_deadline_ms(SEND_PATIENCE_MS);

    if (!link)
        return error_set(TUTTI_ERR_PEER_LOST, "rank %d is not connected any more",
                         mates->peers[to].rank);
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
    }
    for (;;) {
        if (sendmsg(link->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return TUTTI_OK;
        if (errno == EPIPE || errno == ECONNRESET)
            return error_set(TUTTI_ERR_PEER_LOST, "rank %d has closed its connection",
                             mates->peers[to].rank);
        bool full = errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS;
        if (errno != EINTR && (!full || clock_now_ns() > deadline))
            return error_set_errno(TUTTI_ERR_SYSTEM, errno,
                                   "cannot pass a descriptor to a process on this host");
        struct pollfd wait = {.fd = link->watch.fd, .events = POLLOUT};
        (void)poll(&wait, 1, SEND_RETRY_MS);
    }
}

static void close_all(const int *descriptors, int count)
{
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
}

/* One message: its size, 0 at the end, -1 with errno. Descriptors beyond what we take are closed. */
static ssize_t receive(int fd, uint8_t *data, size_t capacity, int *descriptors, int *ret_count,
                       bool *ret_cut)
{
    union control_buffer control;
    struct iovec iov = {.iov_base = data, .iov_len = capacity};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *ret_count = 0;
    if (n < 0)
        return n;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        int got = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (got > MATES_DESCRIPTORS_MAX)
            got = MATES_DESCRIPTORS_MAX;
        memcpy(descriptors, CMSG_DATA(h), (size_t)got * sizeof(int));
        *ret_count = got;
    }
    *ret_cut = (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0;
    return n;
}

void mates_link_close(struct mates_link *link)
{
    if (link->index >= 0 && link->mates->peers[link->index].link == link)
        link->mates->peers[link->index].link = NULL;
    control_watch_remove(link->mates->control, &link->watch);
    link->closing = true;
}

static bool is_half_open(const struct mates_link *link)
{
    return link->index < 0 && !link->closing;
}

int mates_half_open(const struct mates *mates)
{
    int count = 0;

    for (const struct mates_link *link = mates->links; link; link = link->next)
        count += is_half_open(link);
    return count;
}

void mates_suspect(struct mates *mates)
{
    mates->cut_ns = clock_now_ns();
    if (mates->state == MATES_FORMING)
        mates->suspect_ns = mates->cut_ns;
}

bool mates_is_cut_off(const struct mates *mates)
{
    return mates->cut_ns && clock_now_ns() >= mates->cut_ns + DEATH_MS * CLOCK_NS_PER_MS;
}

bool mates_settled(const struct mates *mates)
{
    return mates->state == MATES_READY ||
           (mates->state == MATES_FAILED &&
            (!mates->suspect_ns ||
             clock_now_ns() >= mates->suspect_ns + DEATH_MS * CLOCK_NS_PER_MS));
}

static void link_ready(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct mates_link *link = (struct mates_link *)watch;
    uint8_t data[MATES_MESSAGE_MAX];
    int descriptors[MATES_DESCRIPTORS_MAX], count;
    bool cut = false;

    (void)control;
    (void)events;
    while (!link->closing) {
        ssize_t n = receive(watch->fd, data, sizeof data, descriptors, &count, &cut);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* its death is the pidfd's and the control connection's to tell */
            bool leader_left = link->index == 0;
            struct mates *mates = link->mates;

            mates_link_close(link);
            if (link->index >= 0)
                mates_suspect(mates);
            if (leader_left && mates->state == MATES_FORMING)
                mates_fail(mates, "the first member of this host closed its socket");
            else if (link->index >= 0 && mates->state == MATES_FORMING)
                mates_fail(mates, "rank %d is not connected any more",
                           mates->peers[link->index].rank);
            return;
        }
        if (cut) {
            close_all(descriptors, count);
            mates_fail(link->mates, "descriptors from a process on this host did not arrive; is "
                                    "the limit of open files (ulimit -n) too low?");
            mates_link_close(link);
            return;
        }
        mates_message(link->mates, link, data, (size_t)n, descriptors, count);
    }
}

/* What has come is read first: this process may have been stopped while it came. */
void mates_expire_half_open(struct mates *mates)
{
    int64_t now = clock_now_ns();

    for (struct mates_link *link = mates->links; link; link = link->next) {
        if (!is_half_open(link) || (mates->state != MATES_READY && now <= link->hello_deadline_ns))
            continue;
        if (mates->state != MATES_READY) /* who is ready expects nobody */
            link_ready(mates->control, &link->watch, EPOLLIN);
        if (is_half_open(link))
            mates_link_close(link);
    }
}

struct mates_link *mates_link_new(struct mates *mates, int fd, int index)
{
    struct mates_link *link = calloc(1, sizeof *link);

    if (!link) {
        close(fd);
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a connection on this host");
        return NULL;
    }
    *link =
        (struct mates_link){.watch = {.fd = fd, .ready = link_ready},
                            .mates = mates,
                            .next = mates->links,
                            .index = index,
                            .hello_deadline_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000)};
    mates->links = link;
    if (control_watch_add(mates->control, &link->watch, EPOLLIN)) {
        mates_link_close(link);
        return NULL;
    }
    return link;
}
