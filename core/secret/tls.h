/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encrypted connections between processes that hold the same key: TLS 1.3 by OpenSSL, with the key as an
 * external PSK. So there are no certificates, no names and no files.
 *
 * A connection is a non-blocking socket, which stays the caller's, and a struct tls. Its functions return
 * what send(2) and recv(2) would, with errno, and do the handshake on the way. One connection is used by
 * one thread at a time.
 *
 * libssl is opened when the first keys are made: a process that encrypts nothing does not load it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/plugin.h>
#include <tutti/status.h>

#include "secret/key.h"

struct tls_keys; /* what connections of one purpose are made from */
struct tls;

/* The caller has called key_hold(), and frees the keys behind all their connections. */
tutti_status tls_keys_new(const struct key *key, struct tls_keys **ret_keys);
void tls_keys_free(struct tls_keys *keys);
/* Changes the key of a direction after so many records of it, for tests; else after as many as are safe. */
void tls_keys_renew_after(struct tls_keys *keys, uint64_t records);

/* The side that has dialed; `fd` is connected. */
tutti_status tls_dial(const struct tls_keys *keys, int fd, struct tls **ret_tls);
/* The side that has accepted. Allocates nothing unless the first byte that has come is one of TLS:
 * TUTTI_ERR_NOT_READY: none is here; TUTTI_ERR_DENIED: it is another one, or the end. */
tutti_status tls_accept(const struct tls_keys *keys, int fd, struct tls **ret_tls);
/* Leaves the socket as it is. NULL is allowed. */
void tls_free(struct tls *tls);

/*
 * How many bytes of the pieces have left, or -1 with errno.
 * EINPROGRESS: the handshake is not over, and waits for the other side; nothing was taken.
 * EAGAIN: the socket takes no more for now. What was encrypted by then has to be given again, at the
 * beginning of the pieces, until it counts as sent; more may follow it.
 */
ssize_t tls_send(struct tls *tls, const tutti_piece *pieces, uint32_t count);
/* 0: the other side has closed the connection. -1 with errno, EAGAIN: nothing has come; EBADMSG: what has
 * come was not written with the same key, or was altered. */
ssize_t tls_recv(struct tls *tls, void *data, size_t bytes);
/* Whether tls_recv() may return something although the socket has nothing to read. */
bool tls_has_unread(const struct tls *tls);
