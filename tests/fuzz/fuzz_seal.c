/* SPDX-License-Identifier: Apache-2.0 */
/* What a store may hold in place of a sealed record, and what a file or variable may hold in place of a secret:
 * no seal is good that was not made here, and a secret that is read is told again in text that reads the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "secret/seal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct secret *secret;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct key key = {{1, 2, 3}};

    (void)argc;
    (void)argv;
    if (secret_new(&secret) || secret_take(secret, SECRET_FROM_VARIABLE, "fuzz", &key) ||
        secret_begin_run(secret, "tutti/fuzz/0"))
        abort();
    return 0;
}

static void check_seal(const uint8_t *data, size_t size)
{
    enum seal_state state;
    struct seal seal;

    if (seal_check(secret, &secret->record, "key", data, size, &seal, &state))
        abort();
    if (state == SEAL_GOOD)
        abort();
    if (state != SEAL_MISSING)
        (void)secret_source_words(seal.source);
}

static void check_text(const char *data, size_t size)
{
    char text[SECRET_TEXT];
    struct key key, again;

    if (!secret_parse(data, size, &key))
        return;
    secret_to_text(&key, text);
    if (!secret_parse(text, strlen(text), &again) || !key_same(&key, &again, sizeof key))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_seal(data, size);
    check_text((const char *)data, size);
    return 0;
}
