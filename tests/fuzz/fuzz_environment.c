/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendezvous URLs and a launcher's variables. The first line of the input is init_url (none when it
 * is empty), the others are NAME=VALUE. What is accepted must be an identity that the core can use.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct environment {
    char *text; /* lines, each ended by NUL */
    size_t size;
};

static const char *variable(const char *name, void *user)
{
    const struct environment *environment = user;
    const size_t n = strlen(name);

    for (size_t at = 0; at < environment->size; at += strlen(environment->text + at) + 1) {
        const char *line = environment->text + at;

        if (!strncmp(line, name, n) && line[n] == '=')
            return line + n + 1;
    }
    return NULL;
}

static void check(const struct identity *identity)
{
    if (identity->rank < 0 || identity->rank >= identity->size ||
        identity->size > URL_MEMBERS_MAX || identity->restart < 0 || !*identity->run_id ||
        strchr(identity->run_id, '/') || (identity->hosts && identity->rank))
        abort();
    if (identity->alone && identity->size != 1)
        abort();
    if (identity->alone)
        return;
    if (identity->store.kind == URL_TCP ? !*identity->store.host || !identity->store.port
                                        : identity->store.path[0] != '/')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    struct environment environment = {malloc(size + 1), size};
    struct identity identity;

    if (!environment.text)
        return 0;
    if (size)
        memcpy(environment.text, data, size);
    environment.text[size] = 0;
    for (size_t i = 0; i < size; i++) {
        if (environment.text[i] == '\n')
            environment.text[i] = 0;
    }
    if (*environment.text)
        options.init_url = environment.text;
    if (!identity_resolve(&options, variable, &environment, &identity))
        check(&identity);
    free(environment.text);
    return 0;
}
