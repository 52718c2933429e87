/* SPDX-License-Identifier: Apache-2.0 */
/* The mutual proof: who holds the key is believed, and nothing that was recorded, reflected or changed is. */
#include <criterion/criterion.h>
#include <string.h>

#include "secret/proof.h"

TestSuite(proof, .timeout = 60);

enum { SIZE = 4 };

static const struct key key = {{1, 2, 3}}, other_key = {{1, 2, 4}};

/* The messages of one exchange, and what both sides keep of it. */
struct exchange {
    struct proof dialer, listener;
    uint8_t hello[PROOF_HELLO_BYTES], challenge[PROOF_CHALLENGE_BYTES], answer[PROOF_ANSWER_BYTES];
};

static struct exchange begin(int dialer, int listener)
{
    struct exchange e;

    cr_assert_eq(proof_hello(dialer, listener, &e.dialer, e.hello), TUTTI_OK);
    cr_assert_eq(proof_challenge(listener, SIZE, &key, e.hello, &e.listener, e.challenge),
                 TUTTI_OK);
    return e;
}

static struct exchange complete(int dialer, int listener)
{
    struct exchange e = begin(dialer, listener);

    cr_assert_eq(proof_answer(&e.dialer, &key, e.challenge, e.answer), TUTTI_OK);
    cr_assert_eq(proof_check(&e.listener, &key, e.answer), TUTTI_OK);
    return e;
}

Test(proof, two_members_with_the_same_key_believe_each_other)
{
    const struct exchange e = complete(1, 0);

    cr_expect_eq(e.listener.dialer, 1);
}

Test(proof, neither_side_believes_one_with_another_key)
{
    struct exchange e = begin(1, 0);
    uint8_t answer[PROOF_ANSWER_BYTES];

    cr_expect_eq(proof_answer(&e.dialer, &other_key, e.challenge, answer), TUTTI_ERR_DENIED);
    cr_expect_eq(proof_answer(&e.dialer, &key, e.challenge, answer), TUTTI_OK);
    cr_expect_eq(proof_check(&e.listener, &other_key, answer), TUTTI_ERR_DENIED);
}

/* What an attacker has read on the wire, sent to either side in a new exchange. */
Test(proof, recorded_messages_are_not_valid_again)
{
    const struct exchange old = complete(1, 0);
    struct exchange e = begin(1, 0);
    uint8_t answer[PROOF_ANSWER_BYTES], challenge[PROOF_CHALLENGE_BYTES];
    struct proof again;

    cr_expect_eq(proof_check(&e.listener, &key, old.answer), TUTTI_ERR_DENIED);
    cr_expect_eq(proof_answer(&e.dialer, &key, old.challenge, answer), TUTTI_ERR_DENIED);

    /* The recorded hello is taken, as any is. The recorded answer behind it is not. */
    cr_assert_eq(proof_challenge(0, SIZE, &key, old.hello, &again, challenge), TUTTI_OK);
    cr_expect_neq(memcmp(challenge, old.challenge, PROOF_NONCE_BYTES), 0);
    cr_expect_eq(proof_check(&again, &key, old.answer), TUTTI_ERR_DENIED);
}

/* A stranger that dials a member, which dials it, hands each the other's messages. */
Test(proof, a_challenge_that_is_sent_back_is_refused)
{
    struct exchange e = begin(1, 0);
    struct proof mirror = e.dialer;
    uint8_t answer[PROOF_ANSWER_BYTES], reflected[PROOF_CHALLENGE_BYTES];

    /* The listener's own MAC as the answer. */
    cr_expect_eq(proof_check(&e.listener, &key, e.challenge + PROOF_NONCE_BYTES), TUTTI_ERR_DENIED);

    /* Rank 1 dials, and the stranger lets rank 1 itself compute the challenge, for a hello that says
     * rank 0 or that repeats the nonce. */
    uint8_t hello[PROOF_HELLO_BYTES];
    struct proof listener;
    memcpy(hello, e.hello, sizeof hello);
    memset(hello + 8, 0, 4);
    cr_assert_eq(proof_challenge(1, SIZE, &key, hello, &listener, reflected), TUTTI_OK);
    cr_expect_eq(proof_answer(&mirror, &key, reflected, answer), TUTTI_ERR_DENIED);
    cr_expect_eq(proof_challenge(1, SIZE, &key, e.hello, &listener, reflected), TUTTI_ERR_DENIED,
                 "a hello of its own rank");
}

Test(proof, what_one_member_proves_is_not_valid_for_another)
{
    struct exchange e = begin(1, 0);
    struct proof as_two = e.listener, to_three = e.dialer;
    uint8_t answer[PROOF_ANSWER_BYTES];

    cr_assert_eq(proof_answer(&e.dialer, &key, e.challenge, answer), TUTTI_OK);
    as_two.dialer = 2;
    cr_expect_eq(proof_check(&as_two, &key, answer), TUTTI_ERR_DENIED);
    to_three.listener = 3; /* it has dialed rank 3, and rank 0 answers */
    cr_expect_eq(proof_answer(&to_three, &key, e.challenge, answer), TUTTI_ERR_DENIED);
}

Test(proof, each_changed_bit_is_noticed)
{
    for (size_t bit = 0; bit < 8 * PROOF_HELLO_BYTES; bit++) {
        struct exchange e;
        uint8_t answer[PROOF_ANSWER_BYTES];

        cr_assert_eq(proof_hello(1, 0, &e.dialer, e.hello), TUTTI_OK);
        e.hello[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_expect(proof_challenge(0, SIZE, &key, e.hello, &e.listener, e.challenge) ||
                      proof_answer(&e.dialer, &key, e.challenge, answer),
                  "bit %zu of the hello", bit);
    }
    for (size_t bit = 0; bit < 8 * PROOF_CHALLENGE_BYTES; bit++) {
        struct exchange e = begin(1, 0);
        uint8_t answer[PROOF_ANSWER_BYTES];

        e.challenge[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_expect_eq(proof_answer(&e.dialer, &key, e.challenge, answer), TUTTI_ERR_DENIED,
                     "bit %zu of the challenge", bit);
    }
    struct exchange e = begin(1, 0);
    cr_assert_eq(proof_answer(&e.dialer, &key, e.challenge, e.answer), TUTTI_OK);
    for (size_t bit = 0; bit < 8 * PROOF_ANSWER_BYTES; bit++) {
        e.answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_expect_eq(proof_check(&e.listener, &key, e.answer), TUTTI_ERR_DENIED,
                     "bit %zu of the answer", bit);
        e.answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

Test(proof, garbage_is_known_by_its_first_bytes)
{
    struct exchange e;

    cr_assert_eq(proof_hello(1, 0, &e.dialer, e.hello), TUTTI_OK);
    for (size_t bytes = 0; bytes <= PROOF_HELLO_BYTES; bytes++)
        cr_expect(proof_may_be_hello(e.hello, bytes));
    for (size_t at = 0; at < 8; at++) {
        e.hello[at] ^= 1;
        cr_expect(proof_may_be_hello(e.hello, at));
        cr_expect_not(proof_may_be_hello(e.hello, at + 1), "byte %zu", at);
        e.hello[at] ^= 1;
    }
    cr_expect_not(proof_may_be_hello((const uint8_t *)"GET / HTTP/1.1", 1));
}
