/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/proof.h"

#include <string.h>

#include "base/codec.h"

enum { MAGIC = 0x74747463, VERSION = 4, START_BYTES = 8 };

static void write_start(uint8_t ret_start[START_BYTES])
{
    uint_to_bytes(ret_start, MAGIC, 4);
    uint_to_bytes(ret_start + 4, VERSION, 4);
}

static tutti_status mac_of(const struct proof *proof, const struct key *key, const char *role,
                           uint8_t ret_mac[KEY_MAC_BYTES])
{
    uint8_t ranks[8];

    uint_to_bytes(ranks, proof->listener, 4);
    uint_to_bytes(ranks + 4, proof->dialer, 4);
    const struct key_part parts[] = {{role, strlen(role)},
                                     {ranks, sizeof ranks},
                                     {proof->listener_nonce, PROOF_NONCE_BYTES},
                                     {proof->dialer_nonce, PROOF_NONCE_BYTES}};
    return key_mac(key, parts, sizeof parts / sizeof *parts, ret_mac);
}

static tutti_status check(const struct proof *proof, const struct key *key, const char *role,
                          const uint8_t mac[KEY_MAC_BYTES])
{
    uint8_t right[KEY_MAC_BYTES];
    tutti_status status = mac_of(proof, key, role, right);

    if (!status && !key_same(mac, right, sizeof right))
        status = TUTTI_ERR_DENIED;
    key_wipe(right, sizeof right);
    return status;
}

/* ---- the dialer ---- */

tutti_status proof_hello(int own, int other, struct proof *ret_proof,
                         uint8_t ret_hello[PROOF_HELLO_BYTES])
{
    struct proof proof = {.dialer = (uint32_t)own, .listener = (uint32_t)other};
    tutti_status status = key_random(proof.dialer_nonce, sizeof proof.dialer_nonce);

    if (status)
        return status;
    *ret_proof = proof;
    write_start(ret_hello);
    uint_to_bytes(ret_hello + START_BYTES, proof.dialer, 4);
    memcpy(ret_hello + START_BYTES + 4, proof.dialer_nonce, PROOF_NONCE_BYTES);
    return TUTTI_OK;
}

tutti_status proof_answer(struct proof *proof, const struct key *key,
                          const uint8_t challenge[PROOF_CHALLENGE_BYTES],
                          uint8_t ret_answer[PROOF_ANSWER_BYTES])
{
    memcpy(proof->listener_nonce, challenge, PROOF_NONCE_BYTES);
    tutti_status status = check(proof, key, "listener", challenge + PROOF_NONCE_BYTES);
    return status ? status : mac_of(proof, key, "dialer", ret_answer);
}

/* ---- the listener ---- */

bool proof_may_be_hello(const uint8_t *data, size_t bytes)
{
    uint8_t start[START_BYTES];

    write_start(start);
    return memcmp(data, start, bytes < START_BYTES ? bytes : START_BYTES) == 0;
}

tutti_status proof_challenge(int own, int size, const struct key *key,
                             const uint8_t hello[PROOF_HELLO_BYTES], struct proof *ret_proof,
                             uint8_t ret_challenge[PROOF_CHALLENGE_BYTES])
{
    struct proof proof = {.dialer = (uint32_t)uint_from_bytes(hello + START_BYTES, 4),
                          .listener = (uint32_t)own};

    if (!proof_may_be_hello(hello, PROOF_HELLO_BYTES) || proof.dialer >= (uint32_t)size ||
        proof.dialer == proof.listener)
        return TUTTI_ERR_DENIED;
    memcpy(proof.dialer_nonce, hello + START_BYTES + 4, PROOF_NONCE_BYTES);
    tutti_status status = key_random(proof.listener_nonce, sizeof proof.listener_nonce);
    if (!status)
        status = mac_of(&proof, key, "listener", ret_challenge + PROOF_NONCE_BYTES);
    if (status)
        return status;
    memcpy(ret_challenge, proof.listener_nonce, PROOF_NONCE_BYTES);
    *ret_proof = proof;
    return TUTTI_OK;
}

tutti_status proof_check(const struct proof *proof, const struct key *key,
                         const uint8_t answer[PROOF_ANSWER_BYTES])
{
    return check(proof, key, "dialer", answer);
}
