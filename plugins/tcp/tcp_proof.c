/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two endpoints prove to each other that they belong to the same group.
 *
 *   dialer     hello      magic 8, version 4, zero 4, its id 8, the listener's id 8, its nonce 32
 *   listener   challenge  its nonce 32, MAC("listen") 32
 *   dialer     proof      MAC("dial") 32
 *
 * The MAC is the core's (tutti_host.mac), over the role, both ids and both nonces. Nonces are new in
 * each exchange, so nothing recorded is valid again; roles and ids make that nothing is valid in the
 * other direction, or for another endpoint.
 */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { PROTOCOL = 2, ROLE_BYTES = 8, START_BYTES = 16 };

static const char hello_magic[8] = "tutti-h";
static const char is_listener[ROLE_BYTES] = "listen", is_dialer[ROLE_BYTES] = "dial";

struct exchange {
    const uint8_t *nonce; /* TCP_NONCE_BYTES each */
    uint64_t id;
};

static tutti_status mac_of(tutti_endpoint *endpoint, const char role[ROLE_BYTES],
                           struct exchange listener, struct exchange dialer,
                           uint8_t ret_mac[TCP_MAC_BYTES])
{
    uint8_t covered[ROLE_BYTES + 16 + 2 * TCP_NONCE_BYTES];
    uint8_t *at = covered + ROLE_BYTES;

    memcpy(covered, role, ROLE_BYTES);
    tcp_put(at, listener.id, 8);
    tcp_put(at + 8, dialer.id, 8);
    memcpy(at + 16, listener.nonce, TCP_NONCE_BYTES);
    memcpy(at + 16 + TCP_NONCE_BYTES, dialer.nonce, TCP_NONCE_BYTES);
    return endpoint->host->mac(endpoint->host_self, covered, sizeof covered, ret_mac);
}

/* In a time that does not depend on where the first difference is. */
static bool same_mac(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t difference = 0;

    for (int i = 0; i < TCP_MAC_BYTES; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

static bool make_nonce(uint8_t ret_nonce[TCP_NONCE_BYTES])
{
    return getrandom(ret_nonce, TCP_NONCE_BYTES, 0) == TCP_NONCE_BYTES;
}

static void write_start(uint8_t ret_start[START_BYTES])
{
    memcpy(ret_start, hello_magic, sizeof hello_magic);
    tcp_put(ret_start + 8, PROTOCOL, 8);
}

/* ---- the dialer ---------------------------------------------------------------------------- */

bool tcp_proof_hello(tutti_peer *peer, uint8_t ret_hello[TCP_HELLO_BYTES])
{
    if (!make_nonce(peer->nonce))
        return false;
    write_start(ret_hello);
    tcp_put(ret_hello + 16, peer->endpoint->address.id, 8);
    tcp_put(ret_hello + 24, peer->address.id, 8);
    memcpy(ret_hello + 32, peer->nonce, TCP_NONCE_BYTES);
    return true;
}

bool tcp_proof_answer(const tutti_peer *peer, const uint8_t challenge[TCP_CHALLENGE_BYTES],
                      uint8_t ret_proof[TCP_MAC_BYTES])
{
    tutti_endpoint *endpoint = peer->endpoint;
    const struct exchange listener = {challenge, peer->address.id};
    const struct exchange dialer = {peer->nonce, endpoint->address.id};
    uint8_t right[TCP_MAC_BYTES];

    return mac_of(endpoint, is_listener, listener, dialer, right) == TUTTI_OK &&
           same_mac(right, challenge + TCP_NONCE_BYTES) &&
           mac_of(endpoint, is_dialer, listener, dialer, ret_proof) == TUTTI_OK;
}

/* ---- the listener -------------------------------------------------------------------------- */

bool tcp_proof_may_be_hello(const tutti_endpoint *endpoint, const uint8_t *hello, uint32_t bytes)
{
    uint8_t start[START_BYTES];

    write_start(start);
    return memcmp(hello, start, bytes < sizeof start ? bytes : sizeof start) == 0 &&
           (bytes < 32 || tcp_get(hello + 24, 8) == endpoint->address.id);
}

bool tcp_proof_challenge(tutti_endpoint *endpoint, struct tcp_guest *guest,
                         uint8_t ret_challenge[TCP_CHALLENGE_BYTES])
{
    guest->id = tcp_get(guest->in + 16, 8);
    memcpy(guest->nonces[1], guest->in + 32, TCP_NONCE_BYTES);
    if (!make_nonce(guest->nonces[0]))
        return false;
    memcpy(ret_challenge, guest->nonces[0], TCP_NONCE_BYTES);
    return mac_of(endpoint, is_listener, (struct exchange){guest->nonces[0], endpoint->address.id},
                  (struct exchange){guest->nonces[1], guest->id},
                  ret_challenge + TCP_NONCE_BYTES) == TUTTI_OK;
}

bool tcp_proof_check(tutti_endpoint *endpoint, const struct tcp_guest *guest)
{
    uint8_t right[TCP_MAC_BYTES];

    return mac_of(endpoint, is_dialer, (struct exchange){guest->nonces[0], endpoint->address.id},
                  (struct exchange){guest->nonces[1], guest->id}, right) == TUTTI_OK &&
           same_mac(right, guest->in);
}
