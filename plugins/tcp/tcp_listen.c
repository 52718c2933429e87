/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that peers open.
 *
 * The listener is open to whatever can reach it, so a connection is a guest until it has proven to be a
 * member's (tcp_proof.c). A guest has one of TCP_HALF_OPEN_MAX slots, whose memory belongs to the
 * endpoint. It may send a hello and a proof, each within TCP_HELLO_MS, and the first byte that does not
 * fit ends it without an answer. Where the group encrypts, both come in a channel, which the first byte
 * of its handshake opens.
 *
 * Newcomers come first: when all slots are taken, a newcomer gets that of the oldest guest without a
 * hello, else that of the oldest. A member that loses its slot dials again (tcp_connect.c).
 *
 * A member may be faster than this process: its connection is kept until connect() names it. Such early
 * ones are freed between two looks at the epoll set, so that no event points to freed memory.
 */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    RETRY_MS = 100,     /* until accept is tried again without descriptors */
    ACCEPT_AT_ONCE = 16 /* a quarter of the slots: guests of the last look may still answer */
};

static int64_t now_ns(tutti_endpoint *endpoint)
{
    return endpoint->host->now_ns(endpoint->host_self);
}

void tcp_listen_set_timer(tutti_endpoint *endpoint)
{
    int64_t now = now_ns(endpoint), next = INT64_MAX;

    if (endpoint->accept_later)
        next = now + RETRY_MS * INT64_C(1000000);
    if (endpoint->redial_ns && endpoint->redial_ns < next)
        next = endpoint->redial_ns;
    for (int i = 0; i < TCP_HALF_OPEN_MAX && endpoint->half_open; i++)
        if (endpoint->guests[i].source.fd >= 0 && endpoint->guests[i].deadline_ns < next)
            next = endpoint->guests[i].deadline_ns;

    struct itimerspec when = {0};
    if (next != INT64_MAX) {
        int64_t left = next > now ? next - now : 1;

        when.it_value.tv_sec = left / 1000000000;
        when.it_value.tv_nsec = left % 1000000000;
    }
    timerfd_settime(endpoint->timer.fd, 0, &when, NULL);
}

/* Listens unless there is no descriptor for another guest. */
static void watch_listener(tutti_endpoint *endpoint)
{
    if (!tcp_watch(endpoint, &endpoint->listener, endpoint->accept_later ? 0 : EPOLLIN))
        endpoint->accept_later = true;
}

/* ---- guests -------------------------------------------------------------------------------- */

/* The guest's connection, which becomes the caller's; its slot is free. It leaves the set by name: close alone
 * keeps it there while a forked child has a copy. */
static struct tcp_link release(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    endpoint->half_open--;
    return tcp_link_take(endpoint, &guest->source);
}

static void dismiss(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    tcp_link_close(endpoint, release(endpoint, guest));
}

/* The slot for a newcomer. */
static struct tcp_guest *find_slot(tutti_endpoint *endpoint)
{
    struct tcp_guest *oldest = NULL;

    for (int i = 0; i < TCP_HALF_OPEN_MAX; i++) {
        struct tcp_guest *guest = &endpoint->guests[i];

        if (guest->source.fd < 0)
            return guest;
        if (!oldest || guest->challenged < oldest->challenged ||
            (guest->challenged == oldest->challenged && guest->number < oldest->number))
            oldest = guest;
    }
    dismiss(endpoint, oldest);
    return oldest;
}

static void welcome(tutti_endpoint *endpoint, int fd)
{
    struct tcp_guest *guest = find_slot(endpoint);

    *guest = (struct tcp_guest){
        .source = {.kind = TCP_GUEST, .fd = fd},
        .number = endpoint->guest_count++,
        .deadline_ns = now_ns(endpoint) + TCP_HELLO_MS * INT64_C(1000000),
    };
    endpoint->half_open++;
    if (tcp_watch(endpoint, &guest->source, EPOLLIN))
        tcp_listen_guest(endpoint, guest); /* the hello has often come already */
    else
        dismiss(endpoint, guest);
}

void tcp_listen_accept(tutti_endpoint *endpoint)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
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
    tcp_listen_set_timer(endpoint);
}

void tcp_listen_timer(tutti_endpoint *endpoint)
{
    int64_t now = now_ns(endpoint);
    uint64_t expirations;

    if (read(endpoint->timer.fd, &expirations, sizeof expirations) < 0)
        return;
    for (int i = 0; i < TCP_HALF_OPEN_MAX; i++) {
        struct tcp_guest *guest = &endpoint->guests[i];

        if (guest->source.fd < 0 || guest->deadline_ns > now)
            continue;
        tcp_listen_guest(endpoint, guest); /* what came while this process was stopped */
        if (guest->source.fd >= 0 && guest->deadline_ns <= now)
            dismiss(endpoint, guest);
    }
    tcp_connect_again(endpoint);
    endpoint->accept_later = false;
    watch_listener(endpoint);
    tcp_listen_set_timer(endpoint);
}

static tutti_peer *find_peer(tutti_endpoint *endpoint, uint64_t id)
{
    tutti_peer *peer = endpoint->peers;

    while (peer && peer->address.id != id)
        peer = peer->next;
    return peer;
}

/* The guest is a member. */
static void enter(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    tutti_peer *peer = find_peer(endpoint, guest->id);
    const uint64_t id = guest->id;
    const struct tcp_link link = release(endpoint, guest);

    if (peer) {
        tcp_connect_admit(peer, link);
        return;
    }
    const struct tcp_link older = tcp_listen_take(endpoint, id);
    if (older.fd >= 0)
        tcp_link_close(endpoint, older);
    struct tcp_early *early = tcp_allocate(endpoint, sizeof *early);
    if (!early) { /* it dials again */
        tcp_link_close(endpoint, link);
        return;
    }
    *early =
        (struct tcp_early){.source = {.kind = TCP_EARLY, .fd = link.fd, .channel = link.channel},
                           .next = endpoint->early,
                           .id = id};
    endpoint->early = early;
    if (!tcp_watch(endpoint, &early->source, EPOLLIN))
        tcp_listen_early(endpoint, early);
}

/* The whole hello is there, or the whole proof. False: the guest is not a member. */
static bool take_message(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    uint8_t challenge[TCP_CHALLENGE_BYTES];

    if (guest->challenged) {
        if (!tcp_proof_check(endpoint, guest))
            return false;
        enter(endpoint, guest);
        return true;
    }
    if (!tcp_proof_challenge(endpoint, guest, challenge) ||
        !tcp_link_say(endpoint, tcp_link_of(&guest->source), challenge, sizeof challenge))
        return false;
    guest->challenged = true;
    guest->have = 0;
    guest->deadline_ns = now_ns(endpoint) + TCP_HELLO_MS * INT64_C(1000000);
    return true;
}

void tcp_listen_guest(tutti_endpoint *endpoint, struct tcp_guest *guest)
{
    const uint32_t whole = guest->challenged ? TCP_MAC_BYTES : TCP_HELLO_BYTES;

    if (guest->source.fd < 0)
        return;
    const tutti_status status = tcp_link_secure(endpoint, &guest->source, true);
    if (status == TUTTI_ERR_NOT_READY)
        return;
    const ssize_t got = status ? 0
                               : tcp_link_hear(endpoint, &guest->source, guest->in + guest->have,
                                               whole - guest->have);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool good = got > 0;
    if (good) {
        guest->have += (uint32_t)got;
        good = guest->challenged || tcp_proof_may_be_hello(endpoint, guest->in, guest->have);
    }
    if (good && guest->have == whole)
        good = take_message(endpoint, guest);
    if (!good)
        dismiss(endpoint, guest);
}

/* ---- early members ------------------------------------------------------------------------- */

static struct tcp_link take(tutti_endpoint *endpoint, struct tcp_early *early)
{
    early->gone = true;
    return tcp_link_take(endpoint, &early->source);
}

struct tcp_link tcp_listen_take(tutti_endpoint *endpoint, uint64_t id)
{
    for (struct tcp_early *early = endpoint->early; early; early = early->next)
        if (!early->gone && early->id == id)
            return take(endpoint, early);
    return (struct tcp_link){.fd = -1};
}

/* It has nothing to say before our answer: bytes, like the end, dismiss it. */
void tcp_listen_early(tutti_endpoint *endpoint, struct tcp_early *early)
{
    uint8_t spare;

    if (early->gone || (tcp_link_hear(endpoint, &early->source, &spare, 1) < 0 &&
                        (errno == EAGAIN || errno == EINTR)))
        return;
    tcp_link_close(endpoint, take(endpoint, early));
}

void tcp_listen_sweep(tutti_endpoint *endpoint)
{
    struct tcp_early **at = &endpoint->early;

    while (*at) {
        struct tcp_early *early = *at;

        if (!early->gone) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        tcp_release(endpoint, early);
    }
}

void tcp_listen_close(tutti_endpoint *endpoint)
{
    for (int i = 0; i < TCP_HALF_OPEN_MAX; i++)
        if (endpoint->guests[i].source.fd >= 0)
            dismiss(endpoint, &endpoint->guests[i]);
    for (struct tcp_early *early = endpoint->early; early; early = early->next)
        if (!early->gone)
            tcp_link_close(endpoint, take(endpoint, early));
    tcp_listen_sweep(endpoint);
    if (endpoint->listener.fd >= 0)
        close(endpoint->listener.fd);
}
