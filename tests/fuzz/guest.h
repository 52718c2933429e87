/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stranger's connection to a listener that is under test. The listener's socket is an abstract Unix socket
 * in the place of its own, so that thousands a second can come: ports of TCP would run out.
 *
 * An input is a row of pieces, each with its length less one in front.
 */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct guest_socket {
    struct sockaddr_un address;
    socklen_t size;
};

/* Listens in the place of the descriptor. */
static inline struct guest_socket guest_listen(int listener, int type)
{
    struct guest_socket at = {.size = sizeof at.address};
    const int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    at.address.sun_family = AF_UNIX;
    if (bind(fd, (struct sockaddr *)&at.address, sizeof(sa_family_t)) || listen(fd, 128) ||
        getsockname(fd, (struct sockaddr *)&at.address, &at.size) || dup2(fd, listener) < 0)
        abort();
    (void)fcntl(listener, F_SETFD, FD_CLOEXEC);
    close(fd);
    return at;
}

static inline int guest_connect(const struct guest_socket *at, int type)
{
    const int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&at->address, at->size))
        abort();
    return fd;
}

/* The next piece; false: there is none. */
static inline bool guest_piece(const uint8_t **data, size_t *size, const uint8_t **ret_piece,
                               size_t *ret_bytes)
{
    if (!*size)
        return false;
    size_t bytes = (size_t) * *data + 1;

    ++*data;
    --*size;
    if (bytes > *size)
        bytes = *size;
    *ret_piece = *data;
    *ret_bytes = bytes;
    *data += bytes;
    *size -= bytes;
    return true;
}

/* Bytes that the listener has said since. */
static inline size_t guest_heard(int fd)
{
    uint8_t bytes[4096];
    size_t heard = 0;

    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
        heard += (size_t)n;
    return heard;
}
