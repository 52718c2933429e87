/* SPDX-License-Identifier: Apache-2.0 */
/* The secret by which this process would prove itself; nothing of it but its public id. */
#include <stdlib.h>

#include "base/environment.h"
#include "base/error.h"
#include "info/info.h"
#include "secret/secret.h"

static void list(const struct info_rows *rows, const struct secret *secret)
{
    char id[SECRET_ID_SHORT];

    info_row(rows, "source", "%s", secret_source_words(secret->source));
    if (secret->source == SECRET_NONE) {
        info_row(rows, "reason", "%s", secret->place);
        return;
    }
    secret_id_text(secret->id, id);
    if (secret->source != SECRET_FROM_VARIABLE)
        info_row(rows, "file", "%s", secret->place);
    info_row(rows, "id", "%s", id);
}

void info_secret(const struct info_rows *rows)
{
    static const char *const encryption[] = {
        [ENVIRONMENT_PLAIN] = "none (TUTTI_TLS is 0)",
        [ENVIRONMENT_TLS_WHERE_POSSIBLE] =
            "TLS 1.3 for control connections and backends that can (TUTTI_TLS=where-possible)",
        [ENVIRONMENT_TLS] = "TLS 1.3 (TUTTI_TLS=1)"};
    const char *value = getenv("TUTTI_AUTH");
    struct secret *secret;

    if (secret_new(&secret)) {
        info_row(rows, "problem", "%s", error_message());
        return;
    }
    if (secret_find(secret, NULL, false))
        info_row(rows, "problem", "%s", error_message());
    else
        list(rows, secret);
    info_row(rows, "TUTTI_AUTH", "%s", value && *value ? value : "auto");
    info_row(rows, "encryption", "%s", encryption[environment_encrypts()]);
    secret_unref(secret);
}
