/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of the control plane: listening, dialing, handshakes, frames in and out. Everything
 * is non-blocking and driven by control_poll(); what the frames mean is control.c's concern.
 *
 * A connection begins with the dialer's hello (magic, version, token, rank), at most 256 bytes
 * within 10 s; a connection that does not show the job's token is closed without any effect. At
 * most 64 connections may be half open. Keepalive (1 s idle, 1 s interval, 4 probes) and
 * TCP_USER_TIMEOUT make the kernel notice a host that vanished within 5 s, whatever this process is
 * doing.
 *
 * A connection that the network ends is dialed again at once, from both sides: the link may have been cut
 * and work again. If it does not within 200 ms, the member is lost (control_unreachable()).
 *
 * A member that leaves closes its end behind its last messages. So a send that meets a closed end does not
 * end the connection: what lies unread is read first.
 *
 * What a reader leaves unread waits here: as much as the largest message and 4 MiB, which is more
 * than a group has to say. A connection for which more would wait has failed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "control/inside.h"

enum {
    HELLO_MAGIC = 0x74747463,
    HELLO_VERSION = 3,
    ACCEPT_RETRY_MS = 100,
    FRAME_LIMIT_BASE = 1 << 16,
    KEEPALIVE_SECONDS = 1,
    KEEPALIVE_PROBES = 4,
    VANISHED_MS = 5000
};

static void set_options(int fd)
{
    int one = 1, seconds = KEEPALIVE_SECONDS, probes = KEEPALIVE_PROBES, vanished = VANISHED_MS;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &vanished, sizeof vanished);
}

tutti_status control_watch_add(struct control *control, struct control_watch *watch,
                               uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event))
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot watch a descriptor");
    fork_close_add(watch->fd);
    return TUTTI_OK;
}

void control_watch_change(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    epoll_ctl(control->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void control_watch_remove(struct control *control, struct control_watch *watch)
{
    int fd = watch->fd;

    control_watch_forget(control, watch);
    if (fd >= 0)
        fork_close_now(fd);
}

void control_watch_forget(struct control *control, struct control_watch *watch)
{
    if (watch->fd >= 0)
        epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->fd = -1;
}

size_t control_frame_limit(const struct control *control)
{
    return FRAME_LIMIT_BASE + (size_t)control->size * CONTROL_MEMBER_MAX;
}

/* Marks the connection closed; control_conn_reap() frees it once no event can name it. */
static void conn_close(struct control *control, struct control_conn *conn)
{
    control_watch_remove(control, &conn->watch);
    conn->closing = true;
}

/* Whether the other host does not answer, rather than the process there. */
static bool has_vanished(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN;
}

/* Whether there is another connection to the member that works. */
static bool is_connected(const struct control *control, int rank)
{
    for (const struct control_conn *c = control->connections; c; c = c->next)
        if (c->rank == rank && !c->closing && !c->dialing)
            return true;
    return false;
}

/* `error`: an errno; 0: `why` has the message. */
static void conn_failed(struct control *control, struct control_conn *conn, int error,
                        const char *why)
{
    const bool worked = !conn->dialing, forming = control->handlers && worked;
    int rank = conn->rank;

    if (conn->closing)
        return;
    conn_close(control, conn);
    if (rank < 0)
        return;
    control->members[rank].vanished |= has_vanished(error);
    /* A new connection would not bring what was lost with this one: no message of an agreement comes twice. */
    if (forming)
        control_lost(control, rank, error ? strerror(error) : why);
    else if (!is_connected(control, rank))
        control_unreachable(control, rank, error ? strerror(error) : why);
    /* If the link works again, nobody is lost, and a verdict reaches both sides. */
    if (control->members[rank].unreachable_ns && worked && error && !control->leaving)
        (void)control_dial(control, rank);
}

static void conn_flush(struct control *control, struct control_conn *conn)
{
    while (conn->out_at < conn->out_size) {
        ssize_t n = send(conn->watch.fd, conn->out + conn->out_at, conn->out_size - conn->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            control_watch_change(control, &conn->watch, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            conn->deaf = errno;
            (void)shutdown(conn->watch.fd, SHUT_RDWR); /* its end is read behind what has come */
            break;
        }
        if (n < 0) {
            conn_failed(control, conn, errno, NULL);
            return;
        }
        conn->out_at += (size_t)n;
    }
    conn->out_at = conn->out_size = 0;
    control_watch_change(control, &conn->watch, EPOLLIN);
}

/* Makes room behind what waits. What has left gives its room back once it is the larger part, so that
 * the buffer does not grow with what a slow reader has read. */
static tutti_status make_room(struct control *control, struct control_conn *conn, size_t size)
{
    const size_t waiting = conn->out_size - conn->out_at;
    char message[64];

    if (waiting + size > control_frame_limit(control) + CONTROL_OUT_MAX) {
        snprintf(message, sizeof message, "it does not read; %zu KiB wait for it", waiting / 1024);
        conn_failed(control, conn, 0, message);
        return error_set(TUTTI_ERR_PEER_LOST,
                         "rank %d: %s; it may be stopped (SIGSTOP, a debugger), or its machine "
                         "overloaded",
                         conn->rank, message);
    }
    if (conn->out_at && conn->out_at >= waiting) {
        memmove(conn->out, conn->out + conn->out_at, waiting);
        conn->out_size = waiting;
        conn->out_at = 0;
    }
    if (conn->out_size + size <= conn->out_capacity)
        return TUTTI_OK;
    size_t capacity = (conn->out_size + size) * 2;
    uint8_t *out = realloc(conn->out, capacity);
    if (!out) { /* the waiting peer must not wait for ever */
        snprintf(message, sizeof message, "rank %d has no memory for a message to it",
                 control->rank);
        conn_failed(control, conn, 0, message);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message of %zu bytes", size);
    }
    conn->out = out;
    conn->out_capacity = capacity;
    return TUTTI_OK;
}

tutti_status control_conn_send(struct control *control, struct control_conn *conn,
                               enum frame_type type, const void *body, size_t size)
{
    if (conn->closing)
        return error_set(TUTTI_ERR_PEER_LOST, "the control connection to rank %d is closed",
                         conn->rank);
    if (conn->deaf) /* that is told when its end is read */
        return TUTTI_OK;
    tutti_status status = make_room(control, conn, FRAME_HEADER + size);
    if (status)
        return status;
    frame_header(conn->out + conn->out_size, type, size);
    if (size)
        memcpy(conn->out + conn->out_size + FRAME_HEADER, body, size);
    conn->out_size += FRAME_HEADER + size;
    if (!conn->dialing)
        conn_flush(control, conn);
    return TUTTI_OK;
}

static void send_hello(struct control *control, struct control_conn *conn)
{
    uint8_t body[64];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, HELLO_MAGIC);
    write_u32(&w, HELLO_VERSION);
    write_bytes(&w, control->token, CONTROL_TOKEN_BYTES);
    write_u32(&w, (uint32_t)control->rank);
    (void)control_conn_send(control, conn, FRAME_HELLO, body, w.size);
}

bool control_same_token(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t difference = 0;

    for (int i = 0; i < CONTROL_TOKEN_BYTES; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

/* The first frame of a dialing peer. False: not one of ours. */
static bool take_hello(struct control *control, struct control_conn *conn, enum frame_type type,
                       const uint8_t *body, size_t size)
{
    struct reader r = {.data = body, .size = size};
    uint32_t magic = read_u32(&r), version = read_u32(&r);
    const uint8_t *token = read_bytes(&r, CONTROL_TOKEN_BYTES);
    uint32_t rank = read_u32(&r);

    if (type != FRAME_HELLO || r.bad || magic != HELLO_MAGIC || version != HELLO_VERSION ||
        !control_same_token(token, control->token) || rank >= (uint32_t)control->size ||
        rank == (uint32_t)control->rank)
        return false;
    conn->rank = (int)rank;
    conn->in.limit = control_frame_limit(control);
    return true;
}

static void take_frames(struct control *control, struct control_conn *conn)
{
    while (!conn->closing) {
        enum frame_type type;
        const uint8_t *body;
        size_t size;
        tutti_status status = frame_parser_next(&conn->in, &type, &body, &size);

        if (status == TUTTI_ERR_NOT_READY)
            return;
        if (status) {
            conn_failed(control, conn, 0, "it sent an invalid control message");
            return;
        }
        if (conn->rank < 0) {
            if (!take_hello(control, conn, type, body, size)) {
                conn_close(control, conn);
                return;
            }
            frame_parser_consume(&conn->in);
            control_connected(control, conn);
        } else {
            control_frame(control, conn, type, body, size);
            if (!conn->closing)
                frame_parser_consume(&conn->in);
        }
    }
}

static void room_failed(struct control *control, struct control_conn *conn, tutti_status status)
{
    char message[64];

    if (status == TUTTI_ERR_NO_MEMORY)
        snprintf(message, sizeof message, "rank %d has no memory to read what it sent",
                 control->rank);
    else
        snprintf(message, sizeof message, "it sent a control message that is too long");
    conn_failed(control, conn, 0, message);
}

static void conn_read(struct control *control, struct control_conn *conn)
{
    while (!conn->closing) {
        size_t wanted = conn->rank < 0 ? FRAME_MAX_HELLO - conn->in.size : 4096;
        uint8_t *room;
        tutti_status status =
            wanted ? frame_parser_room(&conn->in, wanted, &room) : TUTTI_ERR_DENIED;

        if (status) {
            room_failed(control, conn, status);
            return;
        }
        ssize_t n = recv(conn->watch.fd, room, wanted, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            const int reset = conn->deaf == ECONNRESET ? ECONNRESET : 0;

            conn_failed(control, conn, n ? errno : reset,
                        "its control connection ended before it left the group");
            return;
        }
        conn->in.size += (size_t)n;
        take_frames(control, conn);
    }
}

static bool is_half_open(const struct control_conn *conn)
{
    return conn->rank < 0 && !conn->closing;
}

static int half_open(const struct control *control)
{
    int count = 0;

    for (const struct control_conn *c = control->connections; c; c = c->next)
        count += is_half_open(c);
    return count;
}

/* Closes connections whose hello is late. What has come is read first: this process may have been
 * stopped while it came. */
static void expire_half_open(struct control *control)
{
    int64_t now = clock_now_ns();

    for (struct control_conn *c = control->connections; c; c = c->next) {
        if (!is_half_open(c) || now <= c->hello_deadline_ns)
            continue;
        conn_read(control, c);
        if (is_half_open(c))
            conn_close(control, c);
    }
}

void control_conn_reap(struct control *control)
{
    struct control_conn **link = &control->connections;

    expire_half_open(control);
    while (*link) {
        struct control_conn *conn = *link;

        if (!conn->closing) {
            link = &conn->next;
            continue;
        }
        *link = conn->next;
        frame_parser_free(&conn->in);
        free(conn->out);
        free(conn);
    }
}

static void conn_ready(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct control_conn *conn = (struct control_conn *)watch;

    if (conn->closing)
        return;
    if (conn->dialing) {
        int error = 0;
        socklen_t size = sizeof error;

        getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            conn_failed(control, conn, error, NULL);
            return;
        }
        conn->dialing = false;
        control_connected(control, conn);
    }
    if (events & EPOLLOUT)
        conn_flush(control, conn);
    if (!conn->closing && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        conn_read(control, conn);
}

/* `conn` is all zero. */
static void conn_begin(struct control *control, struct control_conn *conn, int fd, int rank)
{
    set_options(fd);
    conn->watch = (struct control_watch){.fd = fd, .ready = conn_ready};
    conn->rank = rank;
    conn->in.limit = rank < 0 ? FRAME_MAX_HELLO : control_frame_limit(control);
    conn->next = control->connections;
    control->connections = conn;
}

struct control_conn *control_conn_to(struct control *control, int rank)
{
    for (struct control_conn *c = control->connections; c; c = c->next)
        if (c->rank == rank && !c->closing)
            return c;
    return NULL;
}

struct control_conn *control_dial(struct control *control, int rank)
{
    struct control_member *member = &control->members[rank];
    struct control_conn *conn = control_conn_to(control, rank);

    if (conn || !member->address_size)
        return conn;
    int fd = socket(member->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make a socket for rank %d", rank);
        return NULL;
    }
    int failed = connect(fd, (struct sockaddr *)&member->address, member->address_size);
    if (failed && errno != EINPROGRESS) {
        error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot reach rank %d", rank);
        close(fd);
        return NULL;
    }
    conn = calloc(1, sizeof *conn);
    if (!conn) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a connection to rank %d", rank);
        close(fd);
        return NULL;
    }
    conn_begin(control, conn, fd, rank);
    conn->dialing = true;
    if (control_watch_add(control, &conn->watch, EPOLLIN | EPOLLOUT)) {
        conn_close(control, conn);
        return NULL;
    }
    send_hello(control, conn);
    return conn;
}

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
    for (;;) {
        if (half_open(control) >= CONTROL_HALF_OPEN_MAX) {
            control_accept_later(control, &control->listener, CONTROL_HALF_OPEN_RETRY_MS);
            return;
        }
        /* Before it is accepted: a member that is closed instead has lost this one. */
        struct control_conn *conn = calloc(1, sizeof *conn);
        int fd = conn ? accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;

        if (fd < 0) {
            int error = conn ? errno : ENOMEM;

            free(conn);
            if (error == EINTR || error == ECONNABORTED)
                continue;
            if (error != EAGAIN)
                cannot_accept(control, error);
            return;
        }
        conn_begin(control, conn, fd, -1);
        conn->hello_deadline_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000);
        if (control_watch_add(control, &conn->watch, EPOLLIN))
            conn_close(control, conn);
    }
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

    int fd = socket(control->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the control socket");
    socklen_t size = sizeof control->address;
    if (bind(fd, (struct sockaddr *)&control->address, control->address_size) ||
        listen(fd, SOMAXCONN) || getsockname(fd, (struct sockaddr *)&control->address, &size)) {
        int error = errno;
        close(fd);
        return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot listen on %s", bind_address);
    }
    control->listener.watch = (struct control_watch){.fd = fd, .ready = listener_ready};
    return TUTTI_OK;
}
