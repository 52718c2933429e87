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
 * A connection of another host, or of another network namespace, is served if it proves that it has
 * this process's secret. Where that is the user's own file, one without a proof is served, too, as torch's
 * server does: the files of hosts may differ. It is not known, and store_session.h keeps what it may hold
 * small. An explicit secret, or TUTTI_AUTH=required, makes the proof a condition. With an explicit secret
 * other users of this host may prove that they have it, too.
 *
 * TUTTI_STORE_OPEN=1 takes everybody, as unknown. It is meant for sandboxes in which the kernel does
 * not say whose a socket is.
 *
 * A refused connection is closed before anything is read. The log names each user once, and at most
 * STORE_GUARD_NAMES of them.
 */
#include "store/store_guard.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "store/store.h"
#include "store/store_proof.h"

/* Whether a connection may come that needs a secret: of another host, or of one who was given it. */
static bool needs_secret(int listen_fd, const struct key *handed)
{
    return handed || !store_peer_is_loopback(listen_fd) || secure_getenv("TUTTI_SECRET_FILE") ||
           secure_getenv("TUTTI_SECRET");
}

void store_guard_init(struct store_guard *guard, int listen_fd, uint16_t port,
                      const struct key *handed)
{
    const char *open = secure_getenv("TUTTI_STORE_OPEN");

    *guard = (struct store_guard){.open = open && !strcmp(open, "1")};
    store_peers_open(&guard->peers, listen_fd);
    if (needs_secret(listen_fd, handed)) {
        guard->secret = store_proof_secret(handed);
        if (guard->secret)
            key_hold();
    }
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
    if (guard->secret)
        key_release();
    secret_unref(guard->secret);
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

void store_guard_say_unproven(struct store_guard *guard, int fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof peer;
    char address[STORE_ADDRESS_ROOM] = "?";

    if (guard->told_unproven)
        return;
    guard->told_unproven = true;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&peer, size, address, sizeof address, NULL, 0,
                          NI_NUMERICHOST);
    log_line(LOG_WARN, -1,
             "store server: refused a client at %s: it has not proven that it has this store's "
             "secret (%s); give all ranks the same secret, or set TUTTI_STORE_OPEN=1 where the "
             "store is served, for clients of torch",
             address, secret_source_words(guard->secret->source));
}

/* One that the kernel does not call this user's. */
static enum store_admission admit_stranger(const struct store_guard *guard, enum store_peer peer)
{
    const bool required = guard->secret && guard->secret->required;

    if (guard->open)
        return STORE_UNKNOWN;
    if (peer == STORE_PEER_REMOTE)
        return required ? STORE_MUST_PROVE : STORE_UNKNOWN;
    return peer != STORE_PEER_GONE && required && secret_is_explicit(guard->secret->source)
               ? STORE_MUST_PROVE
               : STORE_REFUSED;
}

enum store_admission store_guard_admit(struct store_guard *guard, int fd)
{
    uid_t uid;
    const enum store_peer peer = store_peers_find(&guard->peers, fd, &uid);
    const enum store_admission admission =
        peer == STORE_PEER_OWN ? STORE_KNOWN : admit_stranger(guard, peer);

    if (admission != STORE_REFUSED)
        return admission;
    if (peer == STORE_PEER_OTHER)
        say_refused(guard, uid);
    else if (peer == STORE_PEER_HIDDEN)
        say_hidden(guard);
    else
        log_line(LOG_DETAIL, -1, "store server: refused a connection that its client has closed");
    return STORE_REFUSED;
}
