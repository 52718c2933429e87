/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to a store server, without its socket: bytes go in, requests are executed on the
 * map that all sessions share, replies gather in `out`. The server moves the bytes; tests and the
 * fuzzer drive it directly.
 *
 * The server does not know a client that has not shown whose it is. Such a client gets shorter replies
 * and may fill only a part of the map, so that the rest stays for members. It becomes known by a proof
 * that it has the server's secret (store_proof.h). A session that must prove itself is served nothing
 * else before.
 *
 * A session whose peer does not read its replies stops executing at STORE_SESSION_HIGH_WATER and
 * goes on with store_session_run() once they are gone; replies are at most STORE_SESSION_MAX_OUT, or for an
 * unknown client STORE_SESSION_UNKNOWN_MAX_OUT.
 */
#pragma once

#include "store/store_map.h"
#include "store/store_proof.h"
#include "store/store_wire.h"

#define STORE_SESSION_HIGH_WATER ((size_t)1 << 20)
#define STORE_SESSION_MAX_OUT ((size_t)256 << 20) /* the offers of 16,384 ranks */
#define STORE_SESSION_UNKNOWN_MAX_OUT ((size_t)64 << 20)

struct store_session {
    struct store_map *map;
    struct store_wire wire;
    struct store_wait wait;
    struct buffer out;
    const struct secret *secret; /* the server's; NULL: it has none */
    struct store_proof proof;
    bool must_prove;
    bool known;                                   /* a member, or of this user */
    bool asked;                                   /* has made a request */
    void (*woken)(struct store_session *session); /* its wait was answered by another's request */
};

void store_session_init(struct store_session *session, struct store_map *map, bool known,
                        void (*woken)(struct store_session *session));
/* The client may prove that it has the server's secret, or `must`. */
void store_session_expect_proof(struct store_session *session, const struct secret *secret,
                                bool must);
/* Ends its wait too. */
void store_session_free(struct store_session *session);

/* Takes bytes of the peer and executes what they complete. An error (with a message): the peer broke
 * the protocol or a limit, the connection is to be closed. */
tutti_status store_session_feed(struct store_session *session, const void *data, size_t size);
/* Executes what was left when the replies passed the high water mark. */
tutti_status store_session_run(struct store_session *session);

static inline bool store_session_blocked(const struct store_session *session)
{
    return session->out.size > STORE_SESSION_HIGH_WATER;
}
