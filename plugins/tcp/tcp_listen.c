/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that peers open.
 *
 * The listener is open to whatever can reach it, so a connection is a guest until it has shown the
 * job's token: it may send TCP_HELLO_BYTES within TCP_HELLO_MS, there are TCP_HALF_OPEN_MAX of
 * them at most (later ones wait in the kernel's backlog), and the first byte that does not fit ends
 * it without an answer. A guest that has shown the token is kept until connect() names its peer:
 * its process may only be faster than this one.
 *
 * Guests are freed between two looks at the epoll set, so that no event points to freed memory.
 */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { RETRY_MS = 100 }; /* until accept is tried again without descriptors */

static int64_t now_ns(tutti_endpoint *endpoint)
{
    return endpoint->host->now_ns(endpoint->host_self);
}

/* Sets the timer to the first thing that has to happen without an event. */
static void set_timer(tutti_endpoint *endpoint)
{
    int64_t now = now_ns(endpoint), next = INT64_MAX;

    if (endpoint->accept_later)
        next = now + RETRY_MS * INT64_C(1000000);
    for (struct tcp_guest *guest = endpoint->guests; guest; guest = guest->next)
        if (!guest->gone && !guest->proven && guest->deadline_ns < next)
            next = guest->deadline_ns;

    struct itimerspec when = {0};
    if (next != INT64_MAX) {
        int64_t left = next > now ? next - now : 1;

        when.it_value.tv_sec = left / 1000000000;
        when.it_value.tv_nsec = left % 1000000000;
    }
    timerfd_settime(endpoint->timer.fd, 0, &when, NULL);
}

/* Listens unless there is no room for another guest or no descriptor for it. */
static void watch_listener(tutti_endpoint *endpoint)
{
    bool room = endpoint->half_open < TCP_HALF_OPEN_MAX && !endpoint->accept_later;

    if (!tcp_watch(endpoint, &endpoint->listener, room ? EPOLLIN : 0))
        endpoint->accept_later = true;
}

/* Lets the guest go; its socket is closed unless it was taken. It leaves the set by name: close
 * alone keeps it there while a forked child has a copy. */
static void dismiss(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    if (guest->source.fd >= 0) {
        tcp_watch(endpoint, &guest->source, 0);
        close(guest->source.fd);
    }
    guest->source.fd = -1;
    guest->gone = true;
    if (!guest->proven)
        endpoint->half_open--;
    watch_listener(endpoint);
}

static void welcome(tutti_endpoint *endpoint, int fd)
{
    struct tcp_guest *guest = tcp_allocate(endpoint, sizeof *guest);

    if (!guest) {
        close(fd);
        return;
    }
    guest->source = (struct tcp_source){.kind = TCP_GUEST, .fd = fd};
    guest->deadline_ns = now_ns(endpoint) + TCP_HELLO_MS * INT64_C(1000000);
    if (!tcp_watch(endpoint, &guest->source, EPOLLIN)) {
        close(fd);
        tcp_release(endpoint, guest);
        return;
    }
    guest->next = endpoint->guests;
    endpoint->guests = guest;
    endpoint->half_open++;
    tcp_listen_guest(endpoint, guest); /* the hello has often come already */
}

void tcp_listen_accept(tutti_endpoint *endpoint)
{
    while (endpoint->half_open < TCP_HALF_OPEN_MAX) {
        int fd = accept4(endpoint->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            welcome(endpoint, fd);
            continue;
        }
        int error = errno;

        if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
            if (!endpoint->accept_warned)
                endpoint->host->log(endpoint->host_self, 1,
                                    "no descriptor for an incoming connection, which waits "
                                    "until there is one: raise 'ulimit -n'");
            endpoint->accept_warned = true;
            endpoint->accept_later = true;
        }
        if (error != EINTR && error != ECONNABORTED)
            break;
    }
    watch_listener(endpoint);
    set_timer(endpoint);
}

void tcp_listen_timer(tutti_endpoint *endpoint)
{
    int64_t now = now_ns(endpoint);
    uint64_t expirations;

    if (read(endpoint->timer.fd, &expirations, sizeof expirations) < 0)
        return;
    for (struct tcp_guest *guest = endpoint->guests; guest; guest = guest->next) {
        if (guest->proven || guest->deadline_ns > now)
            continue;
        tcp_listen_guest(endpoint, guest); /* what came while this process was stopped */
        if (!guest->gone && !guest->proven)
            dismiss(endpoint, guest);
    }
    endpoint->accept_later = false;
    watch_listener(endpoint);
    set_timer(endpoint);
}

static tutti_peer *find_peer(tutti_endpoint *endpoint, uint64_t id)
{
    tutti_peer *peer = endpoint->peers;

    while (peer && peer->address.id != id)
        peer = peer->next;
    return peer;
}

static int take(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    int fd = guest->source.fd;

    tcp_watch(endpoint, &guest->source, 0);
    guest->source.fd = -1;
    dismiss(endpoint, guest);
    return fd;
}

int tcp_listen_take(tutti_endpoint *endpoint, uint64_t id)
{
    for (struct tcp_guest *guest = endpoint->guests; guest; guest = guest->next)
        if (guest->proven && !guest->gone && guest->id == id)
            return take(endpoint, guest);
    return -1;
}

static void prove(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    guest->id = tcp_get(guest->hello + 32, 8);
    tutti_peer *peer = find_peer(endpoint, guest->id);
    if (peer) {
        tcp_connect_admit(peer, take(endpoint, guest));
        return;
    }
    int older = tcp_listen_take(endpoint, guest->id);
    if (older >= 0)
        close(older);
    guest->proven = true;
    endpoint->half_open--;
}

void tcp_listen_guest(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    uint8_t spare;

    if (guest->gone)
        return;
    /* A proven guest has nothing to say before our answer: bytes, like the end, dismiss it. */
    uint8_t *to = guest->proven ? &spare : guest->hello + guest->have;
    size_t room = guest->proven ? 1 : TCP_HELLO_BYTES - guest->have;
    ssize_t got = recv(guest->source.fd, to, room, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || guest->proven) {
        dismiss(endpoint, guest);
        return;
    }
    guest->have += (uint32_t)got;
    if (!tcp_connect_hello_fits(endpoint, guest->hello, guest->have))
        dismiss(endpoint, guest);
    else if (guest->have == TCP_HELLO_BYTES)
        prove(endpoint, guest);
}

void tcp_listen_sweep(tutti_endpoint *endpoint)
{
    struct tcp_guest **at = &endpoint->guests;

    while (*at) {
        struct tcp_guest *guest = *at;

        if (!guest->gone) {
            at = &guest->next;
            continue;
        }
        *at = guest->next;
        tcp_release(endpoint, guest);
    }
}

void tcp_listen_close(tutti_endpoint *endpoint)
{
    for (struct tcp_guest *guest = endpoint->guests; guest; guest = guest->next)
        if (!guest->gone)
            dismiss(endpoint, guest);
    tcp_listen_sweep(endpoint);
    if (endpoint->listener.fd >= 0)
        close(endpoint->listener.fd);
}
