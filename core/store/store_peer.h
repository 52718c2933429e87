/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the socket at the other end of a TCP connection is, as the kernel says: loopback has no owner,
 * but each socket has.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum store_peer {
    STORE_PEER_OWN,    /* a process of this user */
    STORE_PEER_OTHER,  /* one of another user of this network namespace */
    STORE_PEER_GONE,   /* local, and closed already, so that nobody can tell */
    STORE_PEER_HIDDEN, /* local, and the kernel does not say whose it is */
    STORE_PEER_REMOTE  /* on another host, or in another network namespace */
};

struct store_peers {
    int netlink_fd; /* -1: the kernel gives none, and /proc is read instead */
    uint32_t sequence;
    uid_t own;
    bool stands_for_others; /* `own` is also what users are called that have no number here */
};

/* Whether a socket is bound to an address of this host that no other host reaches. */
bool store_peer_is_loopback(int fd);

/* Whether the kernel says that another user listens where a connection of this process leads. */
bool store_peer_serves_another_user(int fd);

/* For connections of a listener of this thread's network namespace. Never fails. */
void store_peers_open(struct store_peers *peers, int listen_fd);
void store_peers_close(struct store_peers *peers);

/* `ret_uid` receives the user in this user namespace, if the result is OWN or OTHER. */
enum store_peer store_peers_find(struct store_peers *peers, int fd, uid_t *ret_uid);
