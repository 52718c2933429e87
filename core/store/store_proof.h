/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tutti's client and tutti's server prove to each other that they have the same secret, within the
 * protocol of TCPStore:
 *
 *   client   VALIDATE, COMPARE_SET key STORE_PROOF_KEY, expected: hello, desired: nothing
 *   server   value: challenge, and a byte that says whether it serves nobody without a proof
 *   client   COMPARE_SET key STORE_PROOF_KEY, expected: answer, desired: nothing
 *   server   value: nothing; or it closes the connection
 *
 * The messages are those of secret/proof.h. Nobody sets that key, and a server that knows nothing of
 * proofs answers a COMPARE_SET of a missing key by the bytes that were expected, and stores nothing. So
 * the client sees its own hello again from torch's server, and goes on without a proof. torch's clients
 * never ask.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "base/buffer.h"
#include "secret/proof.h"
#include "secret/secret.h"

#define STORE_PROOF_KEY "tutti/proof"

/* The secret for the store of this process; `handed` is the launcher's, or NULL. It is required, that is, a
 * server serves no other host without it, if it is explicit or TUTTI_AUTH says so. One that cannot be used is
 * of source UNUSABLE. NULL: no memory. The caller drops it with secret_unref(). */
struct secret *store_proof_secret(const struct key *handed);
static inline bool store_proof_is_there(const struct secret *secret)
{
    return secret && secret->source != SECRET_NONE && secret->source != SECRET_UNUSABLE;
}

/* The server's side of one exchange. Zeroed before first use. */
struct store_proof {
    struct proof proof;
    bool challenged;
};

/* Takes what a client expected at the key, and puts the answer. An error: the client has not proven
 * itself, and its connection is to be closed. */
tutti_status store_proof_serve(struct store_proof *proof, const struct secret *secret,
                               struct slice message, struct buffer *out, bool *ret_proven);

enum { STORE_PROOF_DENIED = -3 }; /* beside the results of store_tcp_send() */

/* The client's side, on a new connection: the server serves nothing before. 0: proven, or the server does not ask for
 * it. DENIED: it does, and its secret is another one. Or a result of store_tcp_receive(). */
int store_proof_show(int fd, const struct secret *secret, int64_t deadline_ns);
