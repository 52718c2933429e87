/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two processes that connect prove to each other that they hold the same key, as messages: bytes
 * in, bytes out.
 *
 *   dialer     hello      magic, version, its rank, its nonce
 *   listener   challenge  its nonce, MAC(key, "listener", both ranks, both nonces)
 *   dialer     answer     MAC(key, "dialer", both ranks, both nonces)
 *
 * Each side checks the other's MAC before it believes anything else. Both nonces are new in every
 * exchange, so nothing that was recorded is valid again. The MAC covers the role and the ranks, so
 * no message is valid in the other direction or for another member. All messages have a fixed size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "secret/key.h"

enum {
    PROOF_NONCE_BYTES = 32,
    PROOF_HELLO_BYTES = 12 + PROOF_NONCE_BYTES,
    PROOF_CHALLENGE_BYTES = PROOF_NONCE_BYTES + KEY_MAC_BYTES,
    PROOF_ANSWER_BYTES = KEY_MAC_BYTES
};

/* One exchange, as either side sees it. */
struct proof {
    uint32_t dialer, listener; /* ranks */
    uint8_t dialer_nonce[PROOF_NONCE_BYTES];
    uint8_t listener_nonce[PROOF_NONCE_BYTES];
};

/* The dialer: `own` connects to `other`. */
tutti_status proof_hello(int own, int other, struct proof *ret_proof,
                         uint8_t ret_hello[PROOF_HELLO_BYTES]);
/* TUTTI_ERR_DENIED: the other side does not hold the key, or is another member. */
tutti_status proof_answer(struct proof *proof, const struct key *key,
                          const uint8_t challenge[PROOF_CHALLENGE_BYTES],
                          uint8_t ret_answer[PROOF_ANSWER_BYTES]);

/* Whether these can be the first `bytes` of a hello. */
bool proof_may_be_hello(const uint8_t *data, size_t bytes);
/* The listener, rank `own` of `size`. TUTTI_ERR_DENIED: not the hello of a member that could dial this
 * one. Later, `ret_proof->dialer` is the rank that the answer proves. */
tutti_status proof_challenge(int own, int size, const struct key *key,
                             const uint8_t hello[PROOF_HELLO_BYTES], struct proof *ret_proof,
                             uint8_t ret_challenge[PROOF_CHALLENGE_BYTES]);
/* TUTTI_ERR_DENIED: the dialer does not hold the key, or is another member. */
tutti_status proof_check(const struct proof *proof, const struct key *key,
                         const uint8_t answer[PROOF_ANSWER_BYTES]);
