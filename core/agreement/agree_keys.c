/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a group, each derived from the one before:
 *
 *   secret      32 bytes that all members of the job have
 *   run key     of the world; its context is the beginning of the world's keys in the store
 *   group key   its context is a MAC of the decision's salt and of all members' nonces, so that no two
 *               groups have the same, and each member knows that it is a new one
 *
 * The keys of connections, local peers and plugins are derived from the group key where they are used.
 */
#include <stdlib.h>

#include "agreement/agree.h"
#include "base/cleanup.h"
#include "base/codec.h"
#include "base/error.h"

/* What all members of the job have, and nobody else. 32 zero bytes: nothing is secret, and a group's
 * members only tell themselves from other groups' by the salt. */
static const struct key *job_secret(const struct agreement *a)
{
    static const struct key none;

    (void)a;
    return &none;
}

static tutti_status run_key(const struct agreement *a, struct key *ret_key)
{
    return key_derive(job_secret(a), "tutti run", a->group->key, a->group->origin.world_key_size,
                      ret_key);
}

/* What no other decision has. */
static tutti_status context_of(const struct decision *d, const struct key *run,
                               uint8_t ret_context[KEY_MAC_BYTES])
{
    const size_t bytes = (size_t)d->size * 8;
    AUTOFREE uint8_t *nonces = malloc(bytes);

    if (!nonces)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the key of %d members", d->size);
    for (int r = 0; r < d->size; r++)
        uint_to_bytes(nonces + (size_t)r * 8, d->nonces[r], 8);
    const struct key_part parts[] = {{d->salt, sizeof d->salt}, {nonces, bytes}};
    return key_mac(run, parts, 2, ret_context);
}

tutti_status agree_group_key(const struct agreement *a, struct key *ret_key)
{
    uint8_t context[KEY_MAC_BYTES];
    struct key run;
    tutti_status status = run_key(a, &run);

    if (!status)
        status = context_of(&a->decision, &run, context);
    if (!status)
        status = key_derive(&run, "group", context, sizeof context, ret_key);
    key_wipe(&run, sizeof run);
    return status;
}
