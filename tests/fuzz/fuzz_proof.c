/* SPDX-License-Identifier: Apache-2.0 */
/* What a stranger sends before it has proven anything, to both sides: nothing of it is believed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/inside.h"
#include "secret/proof.h"

enum { SIZE = 4 };

static const struct key key = {{1, 2, 3}};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    key_hold();
    return 0;
}

/* The next `bytes` of the input, filled up with zeros. */
static void take(const uint8_t **data, size_t *size, uint8_t *ret, size_t bytes)
{
    const size_t n = *size < bytes ? *size : bytes;

    memset(ret, 0, bytes);
    if (n)
        memcpy(ret, *data, n);
    *data += n;
    *size -= n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t hello[PROOF_HELLO_BYTES], challenge[PROOF_CHALLENGE_BYTES], answer[PROOF_ANSWER_BYTES];
    struct proof proof;

    take(&data, &size, hello, sizeof hello);
    take(&data, &size, answer, sizeof answer);
    const tutti_status status = proof_challenge(0, SIZE, &key, hello, &proof, challenge);
    if (!status && (!proof_may_be_hello(hello, sizeof hello) || proof.dialer >= SIZE ||
                    !proof.dialer || !proof_check(&proof, &key, answer)))
        abort();

    take(&data, &size, challenge, sizeof challenge);
    if (proof_hello(1, 0, &proof, hello) || !proof_answer(&proof, &key, challenge, answer))
        abort();

    struct control control = {.size = SIZE, .key = &key};
    uint8_t farewell[FAREWELL_BYTES];
    take(&data, &size, farewell, sizeof farewell);
    if (farewell_take(&control, farewell))
        abort();
    return 0;
}
