/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the tcp store over real sockets share: plain sockets, clients, servers in a child. */
#pragma once

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/clock.h"

/* Much sooner than the deadlines of what the tests call, and later than any schedule. */
enum { SOON_MS = 10000 };

static inline int64_t ms_since(int64_t start_ns)
{
    return (clock_now_ns() - start_ns) / CLOCK_NS_PER_MS;
}

/* Has a port for itself, at which connections are refused: it does not listen. */
static inline int bound_socket(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static inline int loopback_socket(bool listening, uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd;

    if (listening) {
        fd = bound_socket(port);
        cr_assert_eq(listen(fd, 16), 0);
    } else {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        cr_assert_geq(fd, 0);
        cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    }
    return fd;
}

static inline tutti_store *open_client(uint16_t port)
{
    tutti_store *store;

    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 15000, &store), TUTTI_OK, "%s",
                 tutti_last_error());
    return store;
}

static inline void works(tutti_store *store)
{
    tutti_store_value value;

    cr_assert_eq(tutti_store_set(store, "works", "yes", 3, 5000), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_assert_eq(tutti_store_get(store, "works", 5000, &value), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_str_eq(value.data, "yes");
    tutti_store_value_free(&value);
}

/* MSG_WAITALL would not do: where the process is stopped or frozen meanwhile, it returns with a part. */
static inline bool read_all(int fd, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = recv(fd, (char *)data + got, size - got, 0);

        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Whether the other side ends the connection within `ms`, by FIN or RST. */
static inline bool is_closed_within(int fd, int ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&pollfd, 1, ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

struct child_server {
    pid_t pid;
    uint16_t port;
};

static inline struct child_server start_child_server(rlim_t descriptors)
{
    struct child_server child;
    int pipes[2];

    cr_assert_eq(pipe(pipes), 0);
    child.pid = fork();
    if (!child.pid) {
        tutti_store_server *server;
        uint16_t port;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not end it */
        if (descriptors) {
            for (int fd = 3; fd < 1024; fd++) {
                if (fd != pipes[1])
                    close(fd);
            }
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors, descriptors});
        }
        if (tutti_store_server_start("127.0.0.1", 0, &server))
            _exit(1);
        port = tutti_store_server_port(server);
        if (write(pipes[1], &port, sizeof port) != sizeof port)
            _exit(2);
        for (;;)
            pause();
    }
    close(pipes[1]);
    cr_assert_eq(read(pipes[0], &child.port, sizeof child.port), sizeof child.port);
    close(pipes[0]);
    return child;
}

static inline void kill_child(struct child_server child)
{
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
}
