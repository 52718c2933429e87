/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX has no list of its descriptors. New ones are those that a call of UCX has opened, or another thread at
 * the same time; so only kinds that UCX opens are touched: epoll, timers, TCP sockets, datagram sockets of
 * the host, and pipes that do not block. Another thread's is touched if it is of such a kind, new, and meant to be inherited.
 * Accepted connections are known by their port.
 */
#include "inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Calls fn for each open descriptor but the one of the search. */
static void each_descriptor(void (*fn)(int fd, void *user), void *user)
{
    DIR *folder = opendir("/proc/self/fd");

    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (*entry->d_name != '.' && atoi(entry->d_name) != dirfd(folder))
            fn(atoi(entry->d_name), user);
    closedir(folder);
}

static int option_of(int fd, int option)
{
    int value = 0;
    socklen_t bytes = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) ? -1 : value;
}

/* The local port of a TCP socket; 0: it is no TCP socket, or has none yet. */
static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any.sa_family = AF_UNSPEC};
    socklen_t bytes = sizeof at;

    if (option_of(fd, SO_TYPE) != SOCK_STREAM || getsockname(fd, &at.any, &bytes))
        return 0;
    return at.any.sa_family == AF_INET    ? ntohs(at.v4.sin_port)
           : at.any.sa_family == AF_INET6 ? ntohs(at.v6.sin6_port)
                                          : 0;
}

static bool is_of_ucx(int fd)
{
    char link[32], target[64] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) < 0)
        return false;
    if (!strncmp(target, "socket:", 7)) {
        const int domain = option_of(fd, SO_DOMAIN), type = option_of(fd, SO_TYPE);

        return ((domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM) ||
               (domain == AF_UNIX && type == SOCK_DGRAM);
    }
    if (!strncmp(target, "pipe:", 5))
        return fcntl(fd, F_GETFL) & O_NONBLOCK;
    return !strcmp(target, "anon_inode:[eventpoll]") || !strcmp(target, "anon_inode:[timerfd]") ||
           !strcmp(target, "anon_inode:[eventfd]");
}

static void close_on_exec(int fd)
{
    const int flags = fcntl(fd, F_GETFD);

    if (flags >= 0 && !(flags & FD_CLOEXEC))
        (void)fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

/* ---- before and after ---- */

static void note(int fd, void *user)
{
    struct descriptors *all = user;
    int *list = realloc(all->list, (all->count + 1) * sizeof *list);

    if (!list)
        return; /* then it counts as new, and its kind decides */
    all->list = list;
    all->list[all->count++] = fd;
}

void inherited_begin(struct descriptors *before)
{
    *before = (struct descriptors){NULL, 0};
    each_descriptor(note, before);
}

struct comparison {
    const struct descriptors *before;
    struct listening *listening;
};

static void compare(int fd, void *user)
{
    const struct comparison *comparison = user;
    struct listening *listening = comparison->listening;

    for (size_t i = 0; i < comparison->before->count; i++)
        if (comparison->before->list[i] == fd)
            return;
    if (!is_of_ucx(fd))
        return;
    close_on_exec(fd);
    if (listening && listening->count < PORTS_MAX && option_of(fd, SO_ACCEPTCONN) == 1 &&
        port_of(fd))
        listening->ports[listening->count++] = port_of(fd);
}

void inherited_end(struct descriptors *before, struct listening *listening)
{
    struct comparison comparison = {.before = before, .listening = listening};

    each_descriptor(compare, &comparison);
    free(before->list);
}

/* ---- accepted connections ---- */

static void look_at(int fd, void *user)
{
    const struct listening *listening = user;
    const uint16_t port = port_of(fd);

    for (size_t i = 0; port && i < listening->count; i++)
        if (listening->ports[i] == port)
            close_on_exec(fd);
}

void inherited_accepted(const struct listening *listening)
{
    struct listening copy = *listening;

    each_descriptor(look_at, &copy);
}
