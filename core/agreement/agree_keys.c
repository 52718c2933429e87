/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a group, each derived from the one before:
 *
 *   secret      of the job (secret/secret.h); 32 zero bytes in an open group
 *   run key     its context is the beginning of the run's keys in the store; records have a key from it
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
    const struct key *run = &a->group->bootstrap.secret->run;
    uint8_t context[KEY_MAC_BYTES];
    const tutti_status status = context_of(&a->decision, run, context);

    return status ? status : key_derive(run, "group", context, sizeof context, ret_key);
}
