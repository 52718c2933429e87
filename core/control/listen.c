/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections that others open, until they have proven to be members.
 *
 * Any process that reaches the port may connect. Such a guest gets one of 64 slots, whose memory is there
 * from the beginning. It may send a hello and an answer (secret/proof.h), 44 and 32 bytes within 10 s each,
 * or farewells (farewell.c), 84 bytes each. The first byte that does not fit closes it. Nothing else is
 * read before the answer is right. Where the group encrypts, hello and answer come inside of TLS: the first
 * byte of a handshake gives the slot a struct tls, which is all that a guest can make this process allocate.
 *
 * Newcomers come first: when all slots are taken, a newcomer gets the slot of the oldest guest without a
 * hello, else that of the oldest. So a guest that says nothing holds up nobody, and a flood has to send as
 * many hellos as fast as a member answers one. A member that loses its slot dials again (dial.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "control/inside.h"

enum {
    ACCEPT_RETRY_MS = 100,
    ACCEPT_AT_ONCE = 16 /* a quarter of the slots: members of the last look may still answer */
};

/* ---- guests ---- */

static void guest_read(struct control *control, struct control_guest *guest);

static void guest_ready(struct control *control, struct control_watch *watch, uint32_t events)
{
    (void)events;
    if (watch->fd >= 0) /* else it was closed in this look */
        guest_read(control, (struct control_guest *)watch);
}

/* Frees the slot, unless it is free. */
static void guest_close(struct control *control, struct control_guest *guest)
{
    if (guest->watch.fd < 0)
        return;
    control_watch_remove(control, &guest->watch);
    tls_free(guest->tls);
    guest->tls = NULL;
    control->half_open--;
}

/* The guest is a member. */
static void guest_enter(struct control *control, struct control_guest *guest)
{
    const int fd = guest->watch.fd;
    struct control_conn *conn = control_conn_new(control, (int)guest->proof.dialer, CONN_OPEN);

    if (!conn) { /* it dials again */
        guest_close(control, guest);
        return;
    }
    conn->tls = guest->tls;
    guest->tls = NULL;
    control_watch_forget(control, &guest->watch);
    control->half_open--;
    if (control_conn_watch(control, conn, fd, EPOLLIN) ||
        control_conn_send(control, conn, FRAME_WELCOME, NULL, 0))
        return;
    control_connected(control, conn);
}

/* How many bytes its message has, as far as it has come; 0: it is none. */
static size_t guest_whole(const struct control *control, const struct control_guest *guest)
{
    if (guest->challenged)
        return PROOF_ANSWER_BYTES;
    if (proof_may_be_hello(guest->in, guest->size) && !guest->tls == !control->keys)
        return PROOF_HELLO_BYTES;
    if (guest->tls)
        return 0;
    return farewell_may_be(guest->in, guest->size) ? FAREWELL_BYTES : 0;
}

/* All bytes of a message are there. False: it is no member's. */
static bool guest_take(struct control *control, struct control_guest *guest)
{
    uint8_t challenge[PROOF_CHALLENGE_BYTES];

    if (guest->size == FAREWELL_BYTES) {
        guest->size = 0;
        return farewell_take(control, guest->in);
    }
    if (guest->challenged) {
        if (proof_check(&guest->proof, control->key, guest->in))
            return false;
        guest_enter(control, guest);
        return true;
    }
    guest->challenged = true;
    guest->size = 0;
    guest->deadline_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000);
    return !proof_challenge(control->rank, control->size, control->key, guest->in, &guest->proof,
                            challenge) &&
           control_put(guest->watch.fd, guest->tls, challenge, sizeof challenge) ==
               sizeof challenge;
}

/* Begins TLS with a guest that does; others may have a farewell. NOT_READY: it has said nothing yet. */
static tutti_status guest_secure(struct control *control, struct control_guest *guest)
{
    if (!control->keys || guest->tls || guest->size)
        return TUTTI_OK;
    const tutti_status status = tls_accept(control->keys, guest->watch.fd, &guest->tls);

    return status == TUTTI_ERR_DENIED ? TUTTI_OK : status;
}

static void guest_read(struct control *control, struct control_guest *guest)
{
    while (guest->watch.fd >= 0) {
        const tutti_status status = guest_secure(control, guest);

        if (status == TUTTI_ERR_NOT_READY)
            return;
        const size_t whole = guest_whole(control, guest);
        const ssize_t n = status ? 0
                                 : control_take(guest->watch.fd, guest->tls,
                                                guest->in + guest->size, whole - guest->size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        bool good = n > 0;
        if (good) {
            guest->size += (size_t)n;
            good = guest_whole(control, guest);
        }
        if (good && guest->size == guest_whole(control, guest))
            good = guest_take(control, guest);
        if (!good)
            guest_close(control, guest);
    }
}

/* The slot for a newcomer. */
static struct control_guest *guest_slot(struct control *control)
{
    struct control_guest *oldest = NULL;

    for (int i = 0; i < CONTROL_HALF_OPEN_MAX; i++) {
        struct control_guest *guest = &control->guests[i];

        if (guest->watch.fd < 0)
            return guest;
        if (!oldest || guest->challenged < oldest->challenged ||
            (guest->challenged == oldest->challenged && guest->number < oldest->number))
            oldest = guest;
    }
    guest_close(control, oldest);
    return oldest;
}

static void guest_begin(struct control *control, int fd)
{
    struct control_guest *guest = guest_slot(control);

    *guest = (struct control_guest){
        .watch = {.fd = fd, .ready = guest_ready},
        .number = control->guest_count++,
        .deadline_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000),
    };
    control->half_open++;
    if (control_watch_add(control, &guest->watch, EPOLLIN))
        guest_close(control, guest);
    else
        guest_read(control, guest); /* the hello has often come already */
}

void control_listen_expire(struct control *control)
{
    const int64_t now = control->half_open ? clock_now_ns() : 0;

    for (int i = 0; control->half_open && i < CONTROL_HALF_OPEN_MAX; i++) {
        struct control_guest *guest = &control->guests[i];

        if (guest->watch.fd < 0 || now <= guest->deadline_ns)
            continue;
        guest_read(control, guest); /* this process may have been stopped while it came */
        if (guest->watch.fd >= 0 && now > guest->deadline_ns)
            guest_close(control, guest);
    }
}

/* ---- the listener ---- */

void control_accept_later(struct control *control, struct control_listener *listener, int ms)
{
    listener->retry_ns = clock_deadline_ms(ms);
    control_watch_change(control, &listener->watch, 0);
}

void control_accept_again(struct control *control, struct control_listener *listener)
{
    if (!listener->retry_ns || clock_now_ns() < listener->retry_ns)
        return;
    listener->retry_ns = 0;
    control_watch_change(control, &listener->watch, EPOLLIN);
}

static void cannot_accept(struct control *control, int error)
{
    if (!control->accept_warned)
        log_line(LOG_WARN, control->rank, "group %s: cannot accept members for now: %s%s",
                 control->name, strerror(error),
                 error == EMFILE ? " (each takes a descriptor: raise ulimit -n)" : "");
    control->accept_warned = true;
    control_accept_later(control, &control->listener, ACCEPT_RETRY_MS);
}

static void listener_ready(struct control *control, struct control_watch *watch, uint32_t events)
{
    (void)events;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            guest_begin(control, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                cannot_accept(control, errno);
            return;
        }
    }
}

/* Room for all guests; none is there. */
static tutti_status make_slots(struct control *control)
{
    control->guests = calloc(CONTROL_HALF_OPEN_MAX, sizeof *control->guests);
    for (int i = 0; control->guests && i < CONTROL_HALF_OPEN_MAX; i++)
        control->guests[i].watch.fd = -1;
    return control->guests ? TUTTI_OK
                           : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a listener of group %s",
                                       control->name);
}

/* The kernel picks the port. SO_REUSEADDR would give it no more of them (see ip_autobind_reuse in ip-sysctl). */
static tutti_status cannot_listen(const char *address, int error)
{
    if (error == EADDRINUSE)
        return error_set_errno(
            TUTTI_ERR_SYSTEM, error,
            "cannot listen on %s: no port of net.ipv4.ip_local_port_range is "
            "free there; a connection that has ended keeps its port for a minute",
            address);
    return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot listen on %s", address);
}

tutti_status control_listen(struct control *control, const char *bind_address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&control->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&control->address;

    if (inet_pton(AF_INET, bind_address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        control->address_size = sizeof *v4;
    } else if (inet_pton(AF_INET6, bind_address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        control->address_size = sizeof *v6;
    } else {
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "«%s» is not a numeric address", bind_address);
    }
    tutti_status status = make_slots(control);
    if (status)
        return status;

    int fd = socket(control->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the control socket");
    socklen_t size = sizeof control->address;
    if (bind(fd, (struct sockaddr *)&control->address, control->address_size) ||
        listen(fd, SOMAXCONN) || getsockname(fd, (struct sockaddr *)&control->address, &size)) {
        int error = errno;
        close(fd);
        return cannot_listen(bind_address, error);
    }
    control->listener.watch = (struct control_watch){.fd = fd, .ready = listener_ready};
    return TUTTI_OK;
}

void control_listen_close(struct control *control)
{
    for (int i = 0; control->guests && i < CONTROL_HALF_OPEN_MAX; i++)
        guest_close(control, &control->guests[i]);
    free(control->guests);
    control->guests = NULL;
    control_watch_remove(control, &control->listener.watch);
}
