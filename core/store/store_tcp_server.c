/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of a tcp store: one thread, one epoll, one session a connection.
 *
 * Anybody can reach the port. The guard (store_guard.h) says at once whom the server takes. A
 * connection that it takes is half-open until it has made a request: it has HALF_OPEN_MS to show the
 * magic, and ASK_MS for all. Newcomers come first: there are HALF_OPEN_PLACES, and a new connection
 * pushes out the one that has been half-open longest. What that one has sent is read before, so a
 * client whose request is there already stays, however many silent connections come. One that was
 * pushed out dials again (store_tcp.c). A client that has made a request may idle as long as it
 * likes, as torch's clients do. Only one that the guard does not know may still be pushed out by such
 * newcomers, when they hold as many descriptors as they may (store_crowd.h).
 *
 * A connection that breaks the protocol is closed at once, as TCPStore's only error message; the
 * reason goes to the log. A peer that does not read its replies is not read either. What all clients
 * hold in unfinished requests and unread replies is bounded (pending_max): beyond that, the one that
 * holds most is closed. Without descriptors, half-open connections make room, or else accepting
 * pauses instead of spinning on a socket that stays readable.
 *
 * A request of one connection can end the wait of another: that one is put on the dirty list and
 * flushed after. Closed connections are freed at the end of the round, since events that epoll has
 * handed out already may still name them.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/store.h"
#include "store/store_crowd.h"
#include "store/store_guard.h"
#include "store/store_session.h"
#include "store/store_tcp.h"

enum {
    HALF_OPEN_PLACES = 128,
    HALF_OPEN_MS = 10 * 1000,
    ASK_MS = 60 * 1000,
    ACCEPTS_A_ROUND = 64, /* then those who are in have their turn */
    NO_DESCRIPTORS_PAUSE_MS = 100,
    EVENTS = 64,
    RECEIVE_BYTES = 64 << 10,
    KEEP_OUT = 16 << 10 /* capacity of an idle connection's replies */
};

/* Bytes of all clients together, of those that the guard does not know and of those that it knows. */
static const size_t pending_max[2] = {(size_t)128 << 20, (size_t)1 << 30};

struct connection {
    struct store_session session; /* the first member: a session is its connection */
    struct tutti_store_server *server;
    int fd; /* -1: closed, to be freed */
    uint32_t events;
    size_t sent;    /* of the session's replies */
    size_t pending; /* bytes that are counted for it, as of a known or of an unknown client */
    bool counted_known;
    int64_t accepted_ns;
    bool half_open, dirty;
    bool in_crowd;       /* of those that have made a request, and are not known */
    uint8_t crowd_group; /* of its address */
    TAILQ_ENTRY(connection) link, dirty_link;
};

TAILQ_HEAD(connections, connection);

struct tutti_store_server {
    pid_t pid;
    uint16_t port;
    int listen_fd, epoll_fd, stop_fd;
    pthread_t thread;
    struct store_map *map;
    struct store_guard guard;
    struct connections half_open, open, dirty, closed;
    unsigned half_open_count;
    size_t pending[2]; /* bytes of unknown and of known clients */
    bool said_pending, said_crowd;
    struct store_crowd crowd;
    _Atomic unsigned open_count; /* for store_server_drain() */
    bool accepting;
    bool short_of_descriptors; /* said so already */
    int64_t resume_ns;         /* when accepting is tried again */
    uint8_t received[RECEIVE_BYTES];
};

static void watch(struct connection *connection, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};

    if (connection->events == events)
        return;
    connection->events = events;
    (void)epoll_ctl(connection->server->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

static void set_accepting(struct tutti_store_server *server, bool accepting)
{
    struct epoll_event event = {.events = accepting ? EPOLLIN : 0, .data.ptr = &server->listen_fd};

    if (server->accepting == accepting)
        return;
    server->accepting = accepting;
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listen_fd, &event);
}

static void leave_half_open(struct connection *connection)
{
    struct tutti_store_server *server = connection->server;

    TAILQ_REMOVE(&server->half_open, connection, link);
    connection->half_open = false;
    server->half_open_count--;
}

static void leave_crowd(struct connection *connection)
{
    if (connection->in_crowd)
        store_crowd_leave(&connection->server->crowd, connection->crowd_group);
    connection->in_crowd = false;
}

/* Ends a connection; `why` is for the log. */
static void hang_up(struct connection *connection, const char *why)
{
    struct tutti_store_server *server = connection->server;

    log_line(LOG_DETAIL, -1, "store server: closed a connection: %s", why);
    if (connection->half_open) {
        leave_half_open(connection);
    } else {
        TAILQ_REMOVE(&server->open, connection, link);
        atomic_fetch_sub(&server->open_count, 1);
    }
    leave_crowd(connection);
    if (connection->dirty)
        TAILQ_REMOVE(&server->dirty, connection, dirty_link);
    connection->dirty = false;
    server->pending[connection->counted_known] -= connection->pending;
    /* If a child that was forked this moment holds it too, closing it would not end its events. */
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    fork_close_now(connection->fd);
    connection->fd = -1;
    store_session_free(&connection->session);
    TAILQ_INSERT_TAIL(&server->closed, connection, link);
    server->resume_ns = 0; /* a descriptor is free again */
}

static void make_dirty(struct store_session *session)
{
    struct connection *connection = (struct connection *)session;

    if (connection->dirty)
        return;
    connection->dirty = true;
    TAILQ_INSERT_TAIL(&connection->server->dirty, connection, dirty_link);
}

static struct connection *largest_of(struct connections *list, bool known,
                                     struct connection *largest)
{
    struct connection *at;

    TAILQ_FOREACH(at, list, link)
        if (at->counted_known == known && (!largest || at->pending > largest->pending))
            largest = at;
    return largest;
}

/* Counts what the connection holds now. It may be closed for that. */
static void count_pending(struct connection *connection)
{
    struct tutti_store_server *server = connection->server;
    const bool known = connection->session.known;
    const size_t pending = connection->session.wire.in.capacity + connection->session.out.capacity;

    server->pending[connection->counted_known] -= connection->pending;
    server->pending[known] += pending;
    connection->pending = pending;
    connection->counted_known = known;
    while (server->pending[known] > pending_max[known]) {
        struct connection *largest = largest_of(&server->half_open, known, NULL);

        largest = largest_of(&server->open, known, largest);
        log_line(server->said_pending ? LOG_DETAIL : LOG_WARN, -1,
                 "store server: closed the client that held most, %zu bytes, because requests and "
                 "replies of %sclients have %zu bytes, of at most %zu",
                 largest->pending, known ? "" : "unknown ", server->pending[known],
                 pending_max[known]);
        server->said_pending = true;
        hang_up(largest, "it held too much");
    }
}

/* Sends what the socket takes. False: the connection is gone. */
static bool send_replies(struct connection *connection)
{
    struct buffer *out = &connection->session.out;

    while (connection->sent < out->size) {
        const ssize_t n = send(connection->fd, out->data + connection->sent,
                               out->size - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            connection->sent += (size_t)n;
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            hang_up(connection, strerrordesc_np(errno));
            return false;
        }
    }
    connection->sent = 0;
    buffer_clear(out, KEEP_OUT);
    return true;
}

/* Sends replies, and executes what waited for them to be gone. */
static void flush(struct connection *connection)
{
    struct store_session *session = &connection->session;

    for (;;) {
        const bool blocked = store_session_blocked(session);

        if (session->out.failed) {
            hang_up(connection, "its replies are too large");
            return;
        }
        if (!send_replies(connection))
            return;
        if (!blocked || session->out.size)
            break;
        if (store_session_run(session)) {
            hang_up(connection, error_message());
            return;
        }
    }
    watch(connection, (store_session_blocked(session) ? 0 : (uint32_t)EPOLLIN) |
                          (session->out.size ? (uint32_t)EPOLLOUT : 0));
    count_pending(connection);
}

static void flush_dirty(struct tutti_store_server *server)
{
    struct connection *connection;

    while ((connection = TAILQ_FIRST(&server->dirty))) {
        TAILQ_REMOVE(&server->dirty, connection, dirty_link);
        connection->dirty = false;
        flush(connection);
    }
}

/* The connection of an unknown client stays open, in the place of another one if there are too many. */
static void enter_crowd(struct connection *connection)
{
    struct tutti_store_server *server = connection->server;

    if (store_crowd_is_full(&server->crowd)) {
        const uint8_t largest = store_crowd_largest(&server->crowd);
        struct connection *at = TAILQ_FIRST(&server->open);

        log_line(server->said_crowd ? LOG_DETAIL : LOG_WARN, -1,
                 "store server: closed a client, as clients that it does not know hold %u "
                 "connections, of at most %u; give all ranks one secret (TUTTI_SECRET), or raise "
                 "ulimit -n",
                 server->crowd.count, server->crowd.limit);
        server->said_crowd = true;
        while (at && (!at->in_crowd || at->crowd_group != largest))
            at = TAILQ_NEXT(at, link);
        if (at)
            hang_up(at, "newer ones of unknown clients came");
    }
    connection->crowd_group = store_crowd_group(connection->fd);
    connection->in_crowd = true;
    store_crowd_enter(&server->crowd, connection->crowd_group);
}

static void receive(struct connection *connection)
{
    struct tutti_store_server *server = connection->server;
    const ssize_t n = recv(connection->fd, server->received, sizeof server->received, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* One with another secret sees that by the challenge, and leaves. */
        if (connection->session.must_prove && connection->session.proof.challenged)
            store_guard_say_unproven(&server->guard, connection->fd);
        hang_up(connection, n ? strerrordesc_np(errno) : "its client is gone");
        return;
    }
    if (store_session_feed(&connection->session, server->received, (size_t)n)) {
        if (connection->session.must_prove)
            store_guard_say_unproven(&server->guard, connection->fd);
        /* Requests before the mistake are answered. */
        if (send_replies(connection))
            hang_up(connection, error_message());
        return;
    }
    if (connection->session.known)
        leave_crowd(connection);
    if (connection->half_open && connection->session.asked) {
        leave_half_open(connection);
        if (!connection->session.known)
            enter_crowd(connection);
        TAILQ_INSERT_TAIL(&server->open, connection, link);
        atomic_fetch_add(&server->open_count, 1);
    }
    make_dirty(&connection->session);
}

static void serve_connection(struct connection *connection, uint32_t events)
{
    if (connection->fd < 0)
        return;
    if (events & EPOLLIN)
        receive(connection);
    else if (events & (EPOLLERR | EPOLLHUP))
        hang_up(connection, "its client is gone");
    if (connection->fd >= 0 && (events & EPOLLOUT))
        make_dirty(&connection->session);
    flush_dirty(connection->server);
}

/* Reads what has come: this process may have been stopped, or busy, while it came. Then closes the
 * connection, unless it has made a request. */
static void push_out(struct connection *connection, const char *why)
{
    serve_connection(connection, EPOLLIN);
    if (connection->half_open)
        hang_up(connection, why);
}

static void push_out_oldest(struct tutti_store_server *server)
{
    push_out(TAILQ_FIRST(&server->half_open), "newer ones came before it had made a request");
}

static void welcome(struct tutti_store_server *server, int fd)
{
    struct connection *connection;
    struct epoll_event event = {.events = EPOLLIN};
    const enum store_admission admission = store_guard_admit(&server->guard, fd);

    if (admission == STORE_REFUSED) {
        close(fd);
        return;
    }
    event.data.ptr = connection = calloc(1, sizeof *connection);
    if (!connection || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        log_line(LOG_WARN, -1, "store server: turned a client away: %s", strerrordesc_np(errno));
        free(connection);
        close(fd);
        return;
    }
    fork_close_add(fd);
    store_tcp_tune(fd);
    store_session_init(&connection->session, server->map, admission == STORE_KNOWN, make_dirty);
    store_session_expect_proof(&connection->session, server->guard.secret,
                               admission == STORE_MUST_PROVE);
    connection->server = server;
    connection->fd = fd;
    connection->events = EPOLLIN;
    connection->half_open = true;
    connection->accepted_ns = clock_now_ns();
    if (server->half_open_count == HALF_OPEN_PLACES)
        push_out_oldest(server);
    TAILQ_INSERT_TAIL(&server->half_open, connection, link);
    server->half_open_count++;
}

/* Makes room for another descriptor, or stops accepting for a while. */
static void without_descriptors(struct tutti_store_server *server)
{
    const int error = errno;

    if (server->half_open_count) {
        push_out_oldest(server);
        return;
    }
    if (!server->short_of_descriptors)
        log_line(LOG_WARN, -1, "store server: cannot accept clients for now: %s%s",
                 strerrordesc_np(error),
                 error == EMFILE ? " (each client takes one: raise ulimit -n)" : "");
    server->short_of_descriptors = true;
    server->resume_ns = clock_deadline_ms(NO_DESCRIPTORS_PAUSE_MS);
    set_accepting(server, false);
}

static void accept_clients(struct tutti_store_server *server)
{
    for (int i = 0; i < ACCEPTS_A_ROUND && server->accepting; i++) {
        const int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            server->short_of_descriptors = false;
            welcome(server, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            without_descriptors(server);
        }
    }
}

/* Until when a half-open connection has to make its first request. */
static int64_t deadline_of(const struct connection *connection)
{
    const int64_t ms = connection->session.wire.validated ? ASK_MS : HALF_OPEN_MS;

    return connection->accepted_ns + ms * CLOCK_NS_PER_MS;
}

static struct connection *first_late(const struct tutti_store_server *server, int64_t now_ns)
{
    struct connection *connection;

    TAILQ_FOREACH(connection, &server->half_open, link)
        if (deadline_of(connection) <= now_ns)
            return connection;
    return NULL;
}

/* Closes connections that are late, frees what was closed, accepts again when it can. */
static void tidy(struct tutti_store_server *server)
{
    const int64_t now_ns = clock_now_ns();
    struct connection *connection;

    while ((connection = first_late(server, now_ns)))
        push_out(connection, "it made no request in time");
    while ((connection = TAILQ_FIRST(&server->closed))) {
        TAILQ_REMOVE(&server->closed, connection, link);
        free(connection);
    }
    if (!server->accepting && server->resume_ns <= now_ns)
        set_accepting(server, true);
}

/* Until the next thing that tidy() has to do. */
static int patience_ms(const struct tutti_store_server *server)
{
    const struct connection *connection;
    int64_t next_ns = server->accepting ? INT64_MAX : server->resume_ns;

    TAILQ_FOREACH(connection, &server->half_open, link)
        if (deadline_of(connection) < next_ns)
            next_ns = deadline_of(connection);
    return next_ns == INT64_MAX ? -1 : clock_left_ms(next_ns, ASK_MS);
}

static void *serve(void *argument)
{
    struct tutti_store_server *server = argument;
    struct epoll_event events[EVENTS];

    for (;;) {
        const int n = epoll_wait(server->epoll_fd, events, EVENTS, patience_ms(server));

        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &server->stop_fd)
                return NULL;
            if (events[i].data.ptr == &server->listen_fd)
                accept_clients(server);
            else
                serve_connection(events[i].data.ptr, events[i].events);
        }
        tidy(server);
    }
}

static void server_free(struct tutti_store_server *server)
{
    struct connection *connection;

    while ((connection = TAILQ_FIRST(&server->half_open)) ||
           (connection = TAILQ_FIRST(&server->open)))
        hang_up(connection, "the server ends");
    tidy(server);
    store_guard_free(&server->guard);
    store_map_free(server->map);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->stop_fd >= 0)
        close(server->stop_fd);
    fork_close_now(server->listen_fd);
    free(server);
}

static tutti_status prepare_epoll(struct tutti_store_server *server)
{
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &server->stop_fd};
    struct epoll_event client = {.events = EPOLLIN, .data.ptr = &server->listen_fd};

    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->epoll_fd < 0 || server->stop_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->stop_fd, &stop) != 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &client) != 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot set up a store server");
    server->accepting = true;
    return TUTTI_OK;
}

tutti_status store_server_start_on(int fd, const struct key *handed,
                                   tutti_store_server **ret_server)
{
    struct tutti_store_server *server = calloc(1, sizeof *server);

    if (!server) {
        close(fd);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store server");
    }
    server->pid = getpid();
    server->listen_fd = fd;
    fork_close_add(fd);
    server->epoll_fd = server->stop_fd = server->guard.peers.netlink_fd = -1;
    TAILQ_INIT(&server->half_open);
    TAILQ_INIT(&server->open);
    TAILQ_INIT(&server->dirty);
    TAILQ_INIT(&server->closed);
    store_crowd_init(&server->crowd);

    tutti_status status = store_map_new(STORE_MAP_MAX_BYTES, &server->map);

    if (!status)
        status = store_tcp_listen(fd, &server->port);
    if (!status) {
        store_guard_init(&server->guard, fd, server->port, handed);
        status = prepare_epoll(server);
    }
    if (!status) {
        const int error = thread_start(&server->thread, "tutti-store", serve, server);

        if (error)
            status =
                error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot start the store server's thread");
    }
    if (status) {
        server_free(server);
        return status;
    }
    *ret_server = server;
    return TUTTI_OK;
}

uint16_t tutti_store_server_port(const tutti_store_server *server)
{
    return server ? server->port : 0;
}

void store_server_drain(const tutti_store_server *server, int64_t ms)
{
    const struct timespec pause = {.tv_nsec = CLOCK_NS_PER_MS};
    const int64_t until_ns = clock_deadline_ms(ms);

    if (!server || server->pid != getpid())
        return;
    while (atomic_load(&server->open_count) && clock_now_ns() < until_ns)
        nanosleep(&pause, NULL);
}

void tutti_store_server_stop(tutti_store_server *server)
{
    static const uint64_t one = 1;

    /* A forked child has neither the thread nor a right to the clients. */
    if (!server || server->pid != getpid())
        return;
    if (write(server->stop_fd, &one, sizeof one) != (ssize_t)sizeof one)
        return; /* cannot be: the counter of an eventfd takes 2^64 - 2 */
    pthread_join(server->thread, NULL);
    server_free(server);
}
