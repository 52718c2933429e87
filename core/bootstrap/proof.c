/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of a process that is about to join others, and whether they have to have it. */
#include <stdio.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/bootstrap.h"

enum { PATH_ROOM = 192 };

/* Begins the run's keys with a secret that was found with `status`, and replaces the one that is there. */
static tutti_status have(struct bootstrap *bootstrap, struct secret *secret, tutti_status status)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof path, "tutti/%s/%d", bootstrap->run_id, bootstrap->restart);
    if (!status)
        status = secret_begin_run(secret, path);
    if (status) {
        secret_unref(secret);
        return status;
    }
    secret_unref(bootstrap->secret);
    bootstrap->secret = secret;
    return TUTTI_OK;
}

static tutti_status find(const struct bootstrap *bootstrap, const struct key *handed,
                         struct secret *secret)
{
    tutti_status status = secret_find(secret, handed, true);

    if (status)
        return status;
    if (environment_requires_secret() && secret->source == SECRET_NONE)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s, and rank %d has no secret (%.*s); set TUTTI_SECRET_FILE or "
                         "TUTTI_SECRET alike on all ranks",
                         environment_encrypts() == ENVIRONMENT_TLS ? "TUTTI_TLS=1"
                                                                   : "TUTTI_AUTH=required",
                         bootstrap->rank, TEXT_CUT(secret->place, 400));
    secret->required = environment_requires_secret() || secret_is_explicit(secret->source) ||
                       (secret->source == SECRET_OWN_FILE && bootstrap->one_host);
    return TUTTI_OK;
}

tutti_status bootstrap_find_secret(struct bootstrap *bootstrap, const struct key *handed,
                                   bool unusable)
{
    struct secret *secret;
    tutti_status status = secret_new(&secret);

    if (status)
        return status;
    status = find(bootstrap, handed, secret);
    if (status && unusable)
        status = secret_take_open(secret, SECRET_UNUSABLE, "");
    return have(bootstrap, secret, status);
}

tutti_status bootstrap_go_open(struct bootstrap *bootstrap)
{
    struct secret *secret;
    tutti_status status = secret_new(&secret);

    if (status)
        return status;
    status = secret_take_open(secret, SECRET_NONE, "the members have no secret in common");
    return have(bootstrap, secret, status);
}
