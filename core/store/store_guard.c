/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store steers a job, so it takes the processes of one user. A connection from this host is served
 * if the kernel says that its other end is a socket of this process's user (store_peer.h). torch's
 * clients of that user come in like tutti's.
 *
 * Other users are refused, root too. Root does not need the store: it can become this user. But a
 * socket of root is often a forwarder's (of containers, of ssh, of a mesh), which carries the bytes of
 * anybody.
 *
 * A connection of another host, or of another network namespace, is served as torch's server does. It
 * is not known, and store_session.h keeps what it may hold small.
 *
 * TUTTI_STORE_OPEN=1 takes everybody, as unknown. It is meant for sandboxes in which the kernel does
 * not say whose a socket is.
 *
 * A refused connection is closed before anything is read. The log names each user once, and at most
 * STORE_GUARD_NAMES of them.
 */
#include "store/store_guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void store_guard_init(struct store_guard *guard, int listen_fd, uint16_t port)
{
    const char *open = secure_getenv("TUTTI_STORE_OPEN");

    *guard = (struct store_guard){.open = open && !strcmp(open, "1")};
    store_peers_open(&guard->peers, listen_fd);
    if (guard->open)
        log_line(
            LOG_WARN, -1,
            "TUTTI_STORE_OPEN=1: the store at port %u takes every client; any process that reaches "
            "this port can read and change what the store holds",
            port);
}

void store_guard_free(struct store_guard *guard)
{
    store_peers_close(&guard->peers);
}

static void say_refused(struct store_guard *guard, uid_t uid)
{
    for (unsigned i = 0; i < guard->refused_count; i++)
        if (guard->refused[i] == uid)
            return;
    if (guard->refused_count == STORE_GUARD_NAMES)
        return;
    guard->refused[guard->refused_count++] = uid;
    log_line(LOG_WARN, -1,
             "store server: refused a connection of user %u: on its own host this store takes user "
             "%u only; start all ranks as one user, or set TUTTI_STORE_OPEN=1 where the store is "
             "served",
             (unsigned)uid, (unsigned)guard->peers.own);
}

static void say_hidden(struct store_guard *guard)
{
    if (guard->told_hidden)
        return;
    guard->told_hidden = true;
    if (guard->peers.stands_for_others)
        log_line(
            LOG_WARN, -1,
            "store server: refused a connection: user %u also stands for users whom this user "
            "namespace does not know; run as another user, or set TUTTI_STORE_OPEN=1 if nobody "
            "else can reach the store",
            (unsigned)guard->peers.own);
    else
        log_line(LOG_WARN, -1,
                 "store server: refused a connection: the kernel does not say whose it is, as "
                 "neither NETLINK_SOCK_DIAG nor /proc/net/tcp can be used here; set "
                 "TUTTI_STORE_OPEN=1 if nobody else can reach the store");
}

bool store_guard_admits(struct store_guard *guard, int fd, bool *ret_known)
{
    uid_t uid;
    const enum store_peer peer = store_peers_find(&guard->peers, fd, &uid);

    *ret_known = peer == STORE_PEER_OWN;
    if (*ret_known || peer == STORE_PEER_REMOTE || guard->open)
        return true;
    if (peer == STORE_PEER_OTHER)
        say_refused(guard, uid);
    else if (peer == STORE_PEER_HIDDEN)
        say_hidden(guard);
    else
        log_line(LOG_DETAIL, -1, "store server: refused a connection that its client has closed");
    return false;
}
