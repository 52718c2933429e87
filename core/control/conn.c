/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the control plane: frames in and out, and their end. Everything is non-blocking
 * and driven by control_poll(); what the frames mean is control.c's concern. A connection begins with a
 * mutual proof: dial.c has the dialer's side of it, listen.c the listener's.
 *
 * Keepalive (1 s idle, 1 s interval, 4 probes) and TCP_USER_TIMEOUT make the kernel notice a host that
 * vanished within 5 s, whatever this process is doing.
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
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "control/inside.h"

enum {
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

void control_conn_close(struct control *control, struct control_conn *conn)
{
    control_watch_remove(control, &conn->watch);
    tls_free(conn->tls);
    conn->tls = NULL;
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
        if (c->rank == rank && !c->closing && c->stage == CONN_OPEN)
            return true;
    return false;
}

void control_conn_failed(struct control *control, struct control_conn *conn, int error,
                         const char *why)
{
    const bool worked = conn->stage == CONN_OPEN, forming = control->handlers && worked;
    int rank = conn->rank;

    if (conn->closing)
        return;
    control_conn_close(control, conn);
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

void control_conn_flush(struct control *control, struct control_conn *conn)
{
    while (conn->out_at < conn->out_size) {
        ssize_t n = control_put(conn->watch.fd, conn->tls, conn->out + conn->out_at,
                                conn->out_size - conn->out_at);
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
            control_conn_failed(control, conn, errno, NULL);
            return;
        }
        conn->out_at += (size_t)n;
    }
    conn->out_at = conn->out_size = 0;
    control_watch_change(control, &conn->watch, EPOLLIN);
}

/* What has left gives its room back once it is the larger part, so that the buffer does not grow with what a
 * slow reader has read. */
tutti_status control_conn_room(struct control *control, struct control_conn *conn, size_t size)
{
    const size_t waiting = conn->out_size - conn->out_at;
    char message[64];

    if (waiting + size > control_frame_limit(control) + CONTROL_OUT_MAX) {
        snprintf(message, sizeof message, "it does not read; %zu KiB wait for it", waiting / 1024);
        control_conn_failed(control, conn, 0, message);
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
        control_conn_failed(control, conn, 0, message);
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
    if (conn->stage == CONN_FAREWELL || conn->deaf) /* its end is told when it is read */
        return TUTTI_OK;
    tutti_status status = control_conn_room(control, conn, FRAME_HEADER + size);
    if (status)
        return status;
    frame_header(conn->out + conn->out_size, type, size);
    if (size)
        memcpy(conn->out + conn->out_size + FRAME_HEADER, body, size);
    conn->out_size += FRAME_HEADER + size;
    if (conn->stage == CONN_OPEN)
        control_conn_flush(control, conn);
    return TUTTI_OK;
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
            control_conn_failed(control, conn, 0, "it sent an invalid control message");
            return;
        }
        if (conn->stage != CONN_OPEN)
            control_dial_welcomed(control, conn, type);
        else
            control_frame(control, conn, type, body, size);
        if (!conn->closing)
            frame_parser_consume(&conn->in);
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
    control_conn_failed(control, conn, 0, message);
}

static void conn_read(struct control *control, struct control_conn *conn)
{
    while (!conn->closing) {
        uint8_t *room;
        tutti_status status = frame_parser_room(&conn->in, FRAME_READ_AHEAD, &room);

        if (status) {
            room_failed(control, conn, status);
            return;
        }
        ssize_t n = control_take(conn->watch.fd, conn->tls, room, FRAME_READ_AHEAD);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 && conn->stage != CONN_OPEN) {
            control_dial_closed(control, conn);
            return;
        }
        if (n < 0 && errno == EBADMSG) {
            control_conn_failed(control, conn, 0, "what it sent was altered on its way (TLS)");
            return;
        }
        if (n <= 0) {
            const int reset = conn->deaf == ECONNRESET ? ECONNRESET : 0;

            control_conn_failed(control, conn, n ? errno : reset,
                                "its control connection ended before it left the group");
            return;
        }
        conn->in.size += (size_t)n;
        take_frames(control, conn);
    }
}

void control_conn_reap(struct control *control)
{
    struct control_conn **link = &control->connections;

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

    if (!conn->closing && conn->stage < CONN_ANSWERED)
        control_dial_ready(control, conn);
    if (conn->closing || conn->stage < CONN_ANSWERED)
        return;
    if (conn->stage == CONN_OPEN && events & EPOLLOUT)
        control_conn_flush(control, conn);
    if (!conn->closing && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        conn_read(control, conn);
}

struct control_conn *control_conn_new(struct control *control, int rank, enum conn_stage stage)
{
    struct control_conn *conn = calloc(1, sizeof *conn);

    if (!conn) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a connection to rank %d", rank);
        return NULL;
    }
    conn->watch = (struct control_watch){.fd = -1, .ready = conn_ready};
    conn->rank = rank;
    conn->stage = stage;
    conn->in.limit = control_frame_limit(control);
    conn->next = control->connections;
    control->connections = conn;
    return conn;
}

tutti_status control_conn_watch(struct control *control, struct control_conn *conn, int fd,
                                uint32_t events)
{
    set_options(fd);
    conn->watch.fd = fd;
    tutti_status status = control_watch_add(control, &conn->watch, events);
    if (status)
        control_conn_close(control, conn);
    return status;
}

struct control_conn *control_conn_to(struct control *control, int rank)
{
    for (struct control_conn *c = control->connections; c; c = c->next)
        if (c->rank == rank && !c->closing && c->stage != CONN_FAREWELL)
            return c;
    return NULL;
}
