/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of a tcp store: one thread, one epoll, one session a connection.
 *
 * Anybody can reach the port. A connection is half-open until it has shown the magic: at most
 * MAX_HALF_OPEN of them are accepted, the rest waits in the kernel's backlog, and each has
 * HALF_OPEN_MS. A connection that breaks the protocol is closed at once, as TCPStore's only error
 * message; the reason goes to the log. A peer that does not read its replies is not read either.
 * Without descriptors, accepting pauses instead of spinning on a socket that stays readable.
 *
 * A request of one connection can end the wait of another: that one is put on the dirty list and
 * flushed after. Closed connections are freed at the end of the round, since events that epoll has
 * handed out already may still name them.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
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
#include "base/resolve.h"
#include "base/text.h"
#include "base/thread.h"
#include "store/store.h"
#include "store/store_session.h"
#include "store/store_tcp.h"

enum {
    MAX_HALF_OPEN = 64,
    HALF_OPEN_MS = 10 * 1000,
    NO_DESCRIPTORS_PAUSE_MS = 100,
    RESOLVE_MS = 10 * 1000,
    EVENTS = 64,
    RECEIVE_BYTES = 64 << 10,
    KEEP_OUT = 16 << 10 /* capacity of an idle connection's replies */
};

struct connection {
    struct store_session session; /* the first member: a session is its connection */
    struct tutti_store_server *server;
    int fd; /* -1: closed, to be freed */
    uint32_t events;
    size_t sent; /* of the session's replies */
    int64_t deadline_ns;
    bool half_open, dirty;
    TAILQ_ENTRY(connection) link, dirty_link;
};

TAILQ_HEAD(connections, connection);

struct tutti_store_server {
    pid_t pid;
    uint16_t port;
    int listen_fd, epoll_fd, stop_fd;
    pthread_t thread;
    struct store_map *map;
    struct connections half_open, open, dirty, closed;
    unsigned half_open_count;
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
    if (connection->dirty)
        TAILQ_REMOVE(&server->dirty, connection, dirty_link);
    connection->dirty = false;
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

static void receive(struct connection *connection)
{
    struct tutti_store_server *server = connection->server;
    const ssize_t n = recv(connection->fd, server->received, sizeof server->received, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(connection, n ? strerrordesc_np(errno) : "its client is gone");
        return;
    }
    if (store_session_feed(&connection->session, server->received, (size_t)n)) {
        /* Requests before the mistake are answered. */
        if (send_replies(connection))
            hang_up(connection, error_message());
        return;
    }
    if (connection->half_open && connection->session.wire.validated) {
        leave_half_open(connection);
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

static void welcome(struct tutti_store_server *server, int fd)
{
    struct connection *connection = calloc(1, sizeof *connection);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

    if (!connection || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        log_line(LOG_WARN, -1, "store server: turned a client away: %s", strerrordesc_np(errno));
        free(connection);
        close(fd);
        return;
    }
    fork_close_add(fd);
    store_tcp_tune(fd);
    store_session_init(&connection->session, server->map, true, make_dirty);
    connection->server = server;
    connection->fd = fd;
    connection->events = EPOLLIN;
    connection->half_open = true;
    connection->deadline_ns = clock_deadline_ms(HALF_OPEN_MS);
    TAILQ_INSERT_TAIL(&server->half_open, connection, link);
    server->half_open_count++;
}

static void accept_clients(struct tutti_store_server *server)
{
    while (server->half_open_count < MAX_HALF_OPEN) {
        const int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            server->short_of_descriptors = false;
            welcome(server, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EAGAIN)
            return;
        if (!server->short_of_descriptors)
            log_line(LOG_WARN, -1, "store server: cannot accept clients for now: %s%s",
                     strerrordesc_np(errno),
                     errno == EMFILE ? " (each client takes one: raise ulimit -n)" : "");
        server->short_of_descriptors = true;
        server->resume_ns = clock_deadline_ms(NO_DESCRIPTORS_PAUSE_MS);
        set_accepting(server, false);
        return;
    }
    set_accepting(server, false);
}

/* Closes connections that have not shown the magic in time, frees what was closed, accepts again
 * when it can. What has come is read first: this process may have been stopped while it came. */
static void tidy(struct tutti_store_server *server)
{
    struct connection *connection;

    while ((connection = TAILQ_FIRST(&server->half_open)) &&
           connection->deadline_ns <= clock_now_ns()) {
        serve_connection(connection, EPOLLIN);
        if (connection->half_open)
            hang_up(connection, "it sent no request in time");
    }
    while ((connection = TAILQ_FIRST(&server->closed))) {
        TAILQ_REMOVE(&server->closed, connection, link);
        free(connection);
    }
    if (!server->accepting && server->half_open_count < MAX_HALF_OPEN &&
        server->resume_ns <= clock_now_ns())
        set_accepting(server, true);
}

/* Until the next thing that tidy() has to do. */
static int patience_ms(const struct tutti_store_server *server)
{
    const struct connection *oldest = TAILQ_FIRST(&server->half_open);
    int64_t next_ns = oldest ? oldest->deadline_ns : INT64_MAX;

    if (!server->accepting && server->half_open_count < MAX_HALF_OPEN &&
        server->resume_ns < next_ns)
        next_ns = server->resume_ns;
    return next_ns == INT64_MAX ? -1 : clock_left_ms(next_ns, HALF_OPEN_MS);
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
    store_map_free(server->map);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->stop_fd >= 0)
        close(server->stop_fd);
    fork_close_now(server->listen_fd);
    free(server);
}

static tutti_status prepare_socket(int fd, uint16_t *ret_port)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "the store server cannot listen");
    if (address.ss_family == AF_INET)
        *ret_port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    else if (address.ss_family == AF_INET6)
        *ret_port = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    else
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the store server needs a TCP socket");
    return TUTTI_OK;
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

tutti_status store_server_start_on(int fd, tutti_store_server **ret_server)
{
    struct tutti_store_server *server = calloc(1, sizeof *server);

    if (!server) {
        close(fd);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a store server");
    }
    server->pid = getpid();
    server->listen_fd = fd;
    fork_close_add(fd);
    server->epoll_fd = server->stop_fd = -1;
    TAILQ_INIT(&server->half_open);
    TAILQ_INIT(&server->open);
    TAILQ_INIT(&server->dirty);
    TAILQ_INIT(&server->closed);

    tutti_status status = store_map_new(STORE_MAP_MAX_BYTES, &server->map);

    if (!status)
        status = prepare_socket(fd, &server->port);
    if (!status)
        status = prepare_epoll(server);
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

/* A socket bound to the first of the addresses that can be bound. -1: errno says why. */
static int bind_first(const struct addrinfo *addresses)
{
    const int on = 1, off = 0;
    int fd = -1, error = EADDRNOTAVAIL;

    for (const struct addrinfo *address = addresses; address && fd < 0;
         address = address->ai_next) {
        fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            error = errno;
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (address->ai_family == AF_INET6)
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, address->ai_addr, address->ai_addrlen) != 0) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    errno = error;
    return fd;
}

tutti_status tutti_store_server_start(const char *address, uint16_t port,
                                      tutti_store_server **ret_server)
{
    struct addrinfo *addresses;

    if (!address || !*address || !ret_server)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "address and ret_server must not be NULL");

    const int code = resolve(address, port, true, clock_deadline_ms(RESOLVE_MS), &addresses);

    if (code)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a store server cannot bind to \"%.*s\": %s",
                         TEXT_CUT(address, 200), gai_strerror(code));

    const int fd = bind_first(addresses);
    const int error = errno;

    freeaddrinfo(addresses);
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_STORE, error, "a store server cannot bind to %.*s:%u",
                               TEXT_CUT(address, 200), port);
    return store_server_start_on(fd, ret_server);
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
