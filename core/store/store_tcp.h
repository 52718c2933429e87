/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the tcp store: bytes under a deadline, connecting with the handshake, listening. */
#pragma once

#include "secret/secret.h"
#include "store/store.h"

enum { STORE_TCP_HOST_ROOM = 256 };

enum { /* results of store_tcp_send() and store_tcp_receive() that are no errno */
       STORE_TCP_ENDED = -1, /* the other side closed */
       STORE_TCP_LATE = -2   /* the deadline passed */
};

/* Move what is left of `size` bytes by a socket that does not block, and count them in the last
 * argument, so that a caller whose deadline passed may go on. 0, one of the above, or an errno. */
int store_tcp_send(int fd, const void *data, size_t size, int64_t deadline_ns, size_t *sent);
int store_tcp_receive(int fd, void *ret_data, size_t size, int64_t deadline_ns, size_t *received);
/* The message of such a result. */
const char *store_tcp_message(int result);

/* Where a client connects to. */
struct store_tcp_place {
    char host[STORE_TCP_HOST_ROOM];
    uint16_t port;
    int rank;              /* of this process, for what is logged; -1: it is not known */
    struct secret *secret; /* what the client proves itself by; NULL: it was not needed so far */
};

/*
 * Connects to a store server, shows the magic and sees the answer to a ping. Starts over, after a
 * pause, while the server is not there or refuses, until the deadline; so a client may start before
 * its server. PEER_LOST: nothing listened there, or the listener ended the connection, and `server`
 * says who serves the store. With `server` NULL that is a TIMEOUT instead.
 *
 * On another host, or where a server has hung up, the client proves that it has this process's secret
 * (store_proof.h), which is kept in the place. STORE: the server asks for another one.
 */
tutti_status store_tcp_connect(struct store_tcp_place *place, const char *server,
                               const struct store_time *time, int *ret_fd);

/* What a connection begins with, in one write with the first request: torch's server loses its place
 * when the magic does not come with its opcode. */
void store_tcp_put_magic(struct buffer *request);

/* Makes a bound socket listen, and names its port. */
tutti_status store_tcp_listen(int fd, uint16_t *ret_port);

/* TCP_NODELAY, and keepalive so that the end of the peer's host is seen. */
void store_tcp_tune(int fd);
