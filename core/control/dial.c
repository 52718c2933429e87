/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections that this member opens, until the other side welcomes it.
 *
 * The dialer says hello, checks the listener's challenge, and answers it (secret/proof.h). The welcome
 * says that the answer was right; frames wait here until then. Where the group encrypts, all of this is
 * inside of TLS, whose handshake comes first. So a connection that the listener closes
 * before has carried no frame, and is dialed again: a listener under a flood of connections closes the
 * oldest that has not answered. It is tried for as long as a hello may take. A refused connection is not
 * tried again: nobody listens there any more.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/inside.h"

enum { REDIAL_MS = 10 };

static const char stranger[] = "a process that is not a member of the group answers at its address";

/* Connects a new socket. What fails at once has its message. */
static tutti_status begin(struct control *control, struct control_conn *conn)
{
    const struct control_member *member = &control->members[conn->rank];
    int fd = socket(member->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make a socket for rank %d",
                               conn->rank);
    if (connect(fd, (const struct sockaddr *)&member->address, member->address_size) &&
        errno != EINPROGRESS) {
        error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot reach rank %d", conn->rank);
        close(fd);
        return TUTTI_ERR_SYSTEM;
    }
    return control_conn_watch(control, conn, fd, EPOLLIN | EPOLLOUT);
}

/* ---- farewells ---- */

void control_dial_farewell(struct control *control, int rank)
{
    struct control_conn *conn =
        control->members[rank].address_size ? control_conn_new(control, rank, CONN_FAREWELL) : NULL;
    bool good = conn;

    for (int r = 0; good && r < control->size; r++) {
        if (r != control->rank && !control->members[r].left)
            continue;
        good = !control_conn_room(control, conn, FAREWELL_BYTES) &&
               !farewell_write(control, r, conn->out + conn->out_size);
        conn->out_size += good ? FAREWELL_BYTES : 0;
    }
    if (conn && (!good || begin(control, conn)))
        control_conn_close(control, conn);
}

static int error_of_socket(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;

    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

/* The other side closes it when it has read all, or does not take it. */
static void go_on_with_farewell(struct control *control, struct control_conn *conn)
{
    uint8_t spare;
    const int error = error_of_socket(conn->watch.fd);

    if (error) {
        control_conn_failed(control, conn, error, NULL);
        return;
    }
    if (conn->out_size) {
        control_conn_flush(control, conn);
        if (!conn->closing && !conn->out_size)
            (void)shutdown(conn->watch.fd, SHUT_WR);
    }
    if (!conn->closing && (recv(conn->watch.fd, &spare, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        control_conn_close(control, conn);
}

/* ---- the dialer's part of the proof ---- */

struct control_conn *control_dial(struct control *control, int rank)
{
    struct control_conn *conn = control_conn_to(control, rank);

    if (conn || !control->members[rank].address_size)
        return conn;
    conn = control_conn_new(control, rank, CONN_DIALING);
    if (!conn)
        return NULL;
    conn->give_up_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000);
    if (begin(control, conn)) {
        control_conn_close(control, conn);
        return NULL;
    }
    return conn;
}

static void greet(struct control *control, struct control_conn *conn)
{
    uint8_t hello[PROOF_HELLO_BYTES];
    const int error = error_of_socket(conn->watch.fd);

    if (error) {
        control_conn_failed(control, conn, error, NULL);
        return;
    }
    if ((control->keys && !conn->tls && tls_dial(control->keys, conn->watch.fd, &conn->tls)) ||
        proof_hello(control->rank, conn->rank, &conn->proof, hello)) {
        control_conn_failed(control, conn, 0, error_message());
        return;
    }
    /* A new connection has room for it. */
    const ssize_t n = control_put(conn->watch.fd, conn->tls, hello, sizeof hello);
    if (n == sizeof hello)
        conn->stage = CONN_GREETED;
    else if (n < 0 && errno == EINPROGRESS)
        conn->stage = CONN_SECURING;
    else if (n < 0 && errno == EBADMSG)
        control_conn_failed(control, conn, 0, stranger);
    else
        control_dial_closed(control, conn);
    if (!conn->closing && conn->stage != CONN_DIALING)
        control_watch_change(control, &conn->watch, EPOLLIN);
}

static void answer(struct control *control, struct control_conn *conn)
{
    uint8_t bytes[PROOF_ANSWER_BYTES];
    const tutti_status status = proof_answer(&conn->proof, control->key, conn->challenge, bytes);

    if (status)
        control_conn_failed(control, conn, 0,
                            status == TUTTI_ERR_DENIED ? stranger : error_message());
    else if (control_put(conn->watch.fd, conn->tls, bytes, sizeof bytes) != sizeof bytes)
        control_dial_closed(control, conn);
    else
        conn->stage = CONN_ANSWERED;
}

/* Nothing behind the challenge. */
static void read_challenge(struct control *control, struct control_conn *conn)
{
    const ssize_t n =
        control_take(conn->watch.fd, conn->tls, conn->challenge + conn->challenge_size,
                     sizeof conn->challenge - conn->challenge_size);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 && errno == EBADMSG) {
        control_conn_failed(control, conn, 0, stranger);
        return;
    }
    if (n <= 0) {
        control_dial_closed(control, conn);
        return;
    }
    conn->challenge_size += (size_t)n;
    if (conn->challenge_size == sizeof conn->challenge)
        answer(control, conn);
}

void control_dial_ready(struct control *control, struct control_conn *conn)
{
    if (conn->stage == CONN_FAREWELL)
        go_on_with_farewell(control, conn);
    else if (conn->stage == CONN_DIALING || conn->stage == CONN_SECURING)
        greet(control, conn);
    else
        read_challenge(control, conn);
}

void control_dial_welcomed(struct control *control, struct control_conn *conn, enum frame_type type)
{
    if (type != FRAME_WELCOME) {
        control_conn_failed(control, conn, 0, "it sent an invalid control message");
        return;
    }
    conn->stage = CONN_OPEN;
    control_connected(control, conn);
    if (!conn->closing)
        control_conn_flush(control, conn);
}

void control_dial_closed(struct control *control, struct control_conn *conn)
{
    if (clock_now_ns() > conn->give_up_ns) {
        control_conn_failed(control, conn, 0, "it closed the connection during the handshake");
        return;
    }
    control_watch_remove(control, &conn->watch);
    tls_free(conn->tls);
    conn->tls = NULL;
    conn->stage = CONN_DIALING;
    conn->challenge_size = 0;
    conn->in.size = 0;
    conn->redial_ns = clock_deadline_ms(REDIAL_MS);
}

void control_dial_again(struct control *control)
{
    for (struct control_conn *c = control->connections; c; c = c->next) {
        if (c->closing || !c->redial_ns || clock_now_ns() < c->redial_ns)
            continue;
        c->redial_ns = 0;
        if (begin(control, c))
            control_conn_failed(control, c, 0, error_message());
    }
}
