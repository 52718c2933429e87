/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_proof.h"

#include <errno.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"
#include "store/store_tcp.h"
#include "store/store_wire.h"

enum {
    SERVER, /* as ranks of the exchange */
    CLIENT,
    SIDES,
    OFFER_BYTES = PROOF_CHALLENGE_BYTES + 1
};

static bool is_required(const struct secret *secret)
{
    return store_proof_is_there(secret) &&
           (secret_is_explicit(secret->source) || environment_requires_secret());
}

struct secret *store_proof_secret(const struct key *handed)
{
    struct secret *secret;

    if (secret_new(&secret))
        return NULL;
    if (secret_find(secret, handed, false) && secret_take_open(secret, SECRET_UNUSABLE, "")) {
        secret_unref(secret);
        return NULL;
    }
    secret->required = is_required(secret);
    return secret;
}

/* The key of stores, which is the same for all runs: a server may serve several. */
static tutti_status derive(const struct secret *secret, struct key *ret_key)
{
    return key_derive(&secret->key, "tutti store", NULL, 0, ret_key);
}

/* ---- the server ---- */

static tutti_status refuse(void)
{
    return error_set(TUTTI_ERR_DENIED,
                     "it has another secret than this store; give all ranks the same one");
}

static tutti_status challenge(struct store_proof *proof, const struct secret *secret,
                              const struct key *key, struct slice message, struct buffer *out)
{
    uint8_t offer[OFFER_BYTES];
    tutti_status status =
        message.size == PROOF_HELLO_BYTES
            ? proof_challenge(SERVER, SIDES, key, message.data, &proof->proof, offer)
            : TUTTI_ERR_DENIED;

    if (status)
        return status;
    offer[PROOF_CHALLENGE_BYTES] = secret->required;
    buffer_put_bytes(out, (struct slice){offer, sizeof offer});
    proof->challenged = true;
    return TUTTI_OK;
}

tutti_status store_proof_serve(struct store_proof *proof, const struct secret *secret,
                               struct slice message, struct buffer *out, bool *ret_proven)
{
    struct key key;
    tutti_status status = derive(secret, &key);

    if (status)
        return status;
    if (!proof->challenged) {
        status = challenge(proof, secret, &key, message, out);
    } else {
        status = message.size == PROOF_ANSWER_BYTES ? proof_check(&proof->proof, &key, message.data)
                                                    : TUTTI_ERR_DENIED;
        proof->challenged = false; /* an answer has one try */
        *ret_proven = !status;
        if (!status)
            buffer_put_bytes(out, (struct slice){NULL, 0});
    }
    key_wipe(&key, sizeof key);
    return status == TUTTI_ERR_DENIED ? refuse() : status;
}

/* ---- the client ---- */

static int ask(int fd, bool first, const void *message, size_t size, int64_t deadline_ns,
               uint8_t ret_value[OFFER_BYTES], size_t *ret_size)
{
    struct buffer request = {0};
    uint8_t length[8];
    size_t sent = 0, received = 0;

    if (first)
        store_tcp_put_magic(&request);

    buffer_put_uint(&request, STORE_COMPARE_SET, 1);
    buffer_put_bytes(&request, slice_of(STORE_PROOF_KEY));
    buffer_put_bytes(&request, (struct slice){message, size});
    buffer_put_bytes(&request, (struct slice){NULL, 0});
    int result = request.failed
                     ? ENOMEM
                     : store_tcp_send(fd, request.data, request.size, deadline_ns, &sent);
    buffer_free(&request);
    if (!result)
        result = store_tcp_receive(fd, length, sizeof length, deadline_ns, &received);
    if (result)
        return result;
    if (uint_from_bytes(length, sizeof length) > OFFER_BYTES)
        return EPROTO;
    received = 0;
    *ret_size = (size_t)uint_from_bytes(length, sizeof length);
    return store_tcp_receive(fd, ret_value, *ret_size, deadline_ns, &received);
}

static int show(int fd, const struct key *key, int64_t deadline_ns)
{
    uint8_t hello[PROOF_HELLO_BYTES], offer[OFFER_BYTES], answer[PROOF_ANSWER_BYTES];
    struct proof proof;
    size_t size;

    if (proof_hello(CLIENT, SERVER, &proof, hello))
        return ENOMEM;
    const int result = ask(fd, true, hello, sizeof hello, deadline_ns, offer, &size);
    if (result)
        return result;
    if (size == sizeof hello && !memcmp(offer, hello, sizeof hello))
        return 0;
    if (size != sizeof offer)
        return EPROTO;
    if (proof_answer(&proof, key, offer, answer))
        return offer[PROOF_CHALLENGE_BYTES] ? STORE_PROOF_DENIED : 0;
    return ask(fd, false, answer, sizeof answer, deadline_ns, offer, &size);
}

int store_proof_show(int fd, const struct secret *secret, int64_t deadline_ns)
{
    struct key key;

    key_hold();
    const int result = derive(secret, &key) ? ENOMEM : show(fd, &key, deadline_ns);
    key_wipe(&key, sizeof key);
    key_release();
    return result;
}
