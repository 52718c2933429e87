/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a group, each derived from the one before:
 *
 *   secret      32 bytes that all members of the job have
 *   run key     of the world; its context is the beginning of the world's keys in the store
 *   group key   its context is the salt of the decision, so that no two groups have the same
 *
 * The keys of connections, local peers and plugins are derived from the group key where they are used.
 */
#include <string.h>

#include "agreement/agree.h"

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

tutti_status agree_group_key(const struct agreement *a, struct key *ret_key)
{
    struct key key;
    tutti_status status = run_key(a, &key);

    if (!status)
        status = key_derive(&key, "group", a->decision.salt, sizeof a->decision.salt, ret_key);
    key_wipe(&key, sizeof key);
    return status;
}
