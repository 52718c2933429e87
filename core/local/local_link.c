/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors over the star of Unix sockets. SOCK_SEQPACKET keeps a message and its
 * descriptors together. A send that finds the queue full waits up to a second for the reader, a
 * local peer in the same step of the same exchange.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "control/inside.h"
#include "local/local.h"

enum {
    SEND_PATIENCE_MS = 1000,
    SEND_RETRY_MS = 5,
    DEATH_MS = 200 /* from the end of a process's sockets to its pidfd, on a busy machine */
};

union control_buffer {
    char bytes[CMSG_SPACE(LOCAL_DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

tutti_status local_link_send(const struct local_link *link, const void *data, size_t size,
                             const int *descriptors, uint32_t count)
{
    union control_buffer control;
    struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    int64_t deadline = clock_deadline_ms(SEND_PATIENCE_MS);

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
            return error_set(TUTTI_ERR_PEER_LOST,
                             "a process on this host has closed its connection");
        bool full = errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS;
        if (errno != EINTR && (!full || clock_now_ns() > deadline))
            return error_set_errno(TUTTI_ERR_SYSTEM, errno,
                                   "cannot pass a descriptor to a process on this host");
        struct pollfd wait = {.fd = link->watch.fd, .events = POLLOUT};
        (void)poll(&wait, 1, SEND_RETRY_MS);
    }
}

tutti_status local_send(struct local_peers *local, int to, const void *data, size_t size,
                        const int *descriptors, uint32_t count)
{
    const struct local_link *link = local->peers[to].link;
    tutti_status status = TUTTI_ERR_PEER_LOST;

    if (link)
        status = local_link_send(link, data, size, descriptors, count);
    return status == TUTTI_ERR_PEER_LOST
               ? error_set(status, "rank %d is not connected any more", local->peers[to].rank)
               : status;
}

void local_close_all(const int *descriptors, int count)
{
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
}

_Static_assert(sizeof(union control_buffer) == CMSG_LEN(LOCAL_DESCRIPTORS_MAX * sizeof(int)),
               "the padding has room for one more descriptor than receive() takes");

/* One message: its size, 0 at the end, -1 with errno. The kernel drops descriptors beyond
 * LOCAL_DESCRIPTORS_MAX, for which the buffer has no room, and ret_cut tells. */
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
        memcpy(descriptors, CMSG_DATA(h), (size_t)got * sizeof(int));
        *ret_count = got;
    }
    *ret_cut = (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0;
    return n;
}

void local_link_close(struct local_peers *local, struct local_link *link)
{
    if (link->index >= 0 && local->peers[link->index].link == link)
        local->peers[link->index].link = NULL;
    control_watch_remove(local->control, &link->watch);
    link->closing = true;
}

static bool is_half_open(const struct local_link *link)
{
    return link->index < 0 && !link->closing;
}

int local_half_open(const struct local_peers *local)
{
    int count = 0;

    for (const struct local_link *link = local->links; link; link = link->next)
        count += is_half_open(link);
    return count;
}

void local_suspect(struct local_peers *local)
{
    local->cut_ns = clock_now_ns();
    if (local->state == LOCAL_FORMING)
        local->suspect_ns = local->cut_ns;
}

bool local_is_cut_off(const struct local_peers *local)
{
    return local->cut_ns && clock_now_ns() >= local->cut_ns + DEATH_MS * CLOCK_NS_PER_MS;
}

bool local_settled(const struct local_peers *local)
{
    LOCK_SCOPE(&local->control->lock); /* a thread of an engine that gathers polls, too */
    return local->state == LOCAL_READY ||
           (local->state == LOCAL_FAILED &&
            (!local->suspect_ns ||
             clock_now_ns() >= local->suspect_ns + DEATH_MS * CLOCK_NS_PER_MS));
}

static void link_ready(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct local_link *link = (struct local_link *)watch;
    struct local_peers *local = control->local;
    uint8_t data[LOCAL_MESSAGE_MAX];
    int descriptors[LOCAL_DESCRIPTORS_MAX], count;
    bool cut = false;

    (void)events;
    while (!link->closing) {
        ssize_t n = receive(watch->fd, data, sizeof data, descriptors, &count, &cut);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* its death is the pidfd's and the control connection's to tell */
            local_close_all(descriptors, count); /* of a message without bytes */
            local_link_close(local, link);
            if (link->index >= 0)
                local_suspect(local);
            if (link->index == 0 && local->state == LOCAL_FORMING)
                local_fail(local, "the first member of this host closed its socket");
            else if (link->index >= 0 && local->state == LOCAL_FORMING)
                local_fail(local, "rank %d is not connected any more",
                           local->peers[link->index].rank);
            return;
        }
        if (cut) {
            local_close_all(descriptors, count);
            if (link->index >= 0 || local_proves(local, link, data, (size_t)n))
                local_fail(local, "descriptors from a process on this host did not arrive; is "
                                  "the limit of open files (ulimit -n) too low?");
            local_link_close(local, link);
            return;
        }
        local_message(local, link, data, (size_t)n, descriptors, count);
    }
}

/* Reads from half-open connections before it closes them: this process may have been stopped while
 * bytes came. */
void local_expire_half_open(struct local_peers *local)
{
    int64_t now = clock_now_ns();

    for (struct local_link *link = local->links; link; link = link->next) {
        if (!is_half_open(link) || (local->state != LOCAL_READY && now <= link->hello_deadline_ns))
            continue;
        if (local->state != LOCAL_READY) /* a member that is ready expects no connection */
            link_ready(local->control, &link->watch, EPOLLIN);
        if (is_half_open(link))
            local_link_close(local, link);
    }
}

struct local_link *local_link_new(struct local_peers *local, int fd, int index)
{
    struct local_link *link = calloc(1, sizeof *link);

    if (!link) {
        close(fd);
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a connection on this host");
        return NULL;
    }
    *link =
        (struct local_link){.watch = {.fd = fd, .ready = link_ready},
                            .next = local->links,
                            .index = index,
                            .hello_deadline_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000)};
    local->links = link;
    if (control_watch_add(local->control, &link->watch, EPOLLIN)) {
        local_link_close(local, link);
        return NULL;
    }
    return link;
}
