/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret of a job. Each job has its own, unless the user has given one for it by TUTTI_SECRET_FILE or
 * TUTTI_SECRET. Ranks get it in their environment, which other users cannot read, and what the launcher
 * tells them in the store is sealed with it (base/ended.h).
 */
#include <string.h>

#include "base/ended.h"
#include "base/error.h"
#include "cli.h"
#include "run/launcher_inside.h"
#include "secret/seal.h"

static bool find_secret(struct launcher *l)
{
    struct key own;
    tutti_status status = key_random(&own, sizeof own);

    if (!status)
        status = secret_new(&l->secret);
    if (!status)
        status = secret_find(l->secret, &own, false);
    key_wipe(&own, sizeof own);
    if (!status)
        status = secret_begin_run(l->secret, ENDED_RUN);
    return !status;
}

bool launcher_make_secret(struct launcher *l)
{
    const bool made = find_secret(l);

    if (!made)
        cli_say("run", "%s", error_message());
    return made;
}

const char *launcher_secret_text(const struct launcher *l, char ret_text[SECRET_TEXT])
{
    if (l->secret->source != SECRET_FROM_LAUNCHER)
        return NULL;
    secret_to_text(&l->secret->key, ret_text);
    return ret_text;
}

bool launcher_seal(const struct launcher *l, const void *entry, size_t bytes,
                   uint8_t ret_seal[SEAL_BYTES])
{
    return seal_make(l->secret, &l->secret->record, ENDED_KEY, entry, bytes, ret_seal) == TUTTI_OK;
}
