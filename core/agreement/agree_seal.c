/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records with seals (secret/seal.h): what a member writes for the others is under its secret, and what it
 * reads has to be.
 *
 * A member that requires its secret believes nothing else. One that does not, since it has none or has
 * only its user's own file and the members may be on several hosts, believes records of other secrets, too:
 * the leader then finds in the offers that the members have no secret in common, says so in the decision,
 * and from there on all use the keys that everybody has. A record with this member's own id and a wrong
 * MAC is an error in any case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agreement/agree.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

tutti_status agree_seal(const struct agreement *a, const char *key, const void *data, size_t size,
                        struct writer *ret_sealed)
{
    const struct secret *secret = a->group->bootstrap.secret;
    struct writer w = {.data = malloc(size + SEAL_BYTES), .capacity = size + SEAL_BYTES};

    if (!w.data)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a record of %zu bytes", size);
    write_bytes(&w, data, size);
    const tutti_status status =
        seal_make(secret, &secret->record, key, data, size, w.data + w.size);
    w.size += SEAL_BYTES;
    if (status)
        free(w.data);
    else
        *ret_sealed = w;
    return status;
}

/* ---- words ---- */

/* "what rank 3 offers" */
static void name_record(const struct agreement *a, const char *key, char *ret_name, size_t capacity)
{
    const size_t prefix = strlen(a->group->key);
    const char *tail = strncmp(key, a->group->key, prefix) ? "" : key + prefix;
    int rank;

    if (sscanf(tail, "/offer/%d", &rank) == 1)
        snprintf(ret_name, capacity, "the offer of rank %d", rank);
    else if (!strncmp(tail, "/decision/", 10))
        snprintf(ret_name, capacity, "the decision of rank 0");
    else if (!strncmp(tail, "/outcome/", 9))
        snprintf(ret_name, capacity, "the outcome");
    else
        snprintf(ret_name, capacity, "a record");
}

static tutti_status bad_record(const struct agreement *a, const char *key, enum seal_state state)
{
    const struct secret *secret = a->group->bootstrap.secret;
    char name[64], id[SECRET_ID_SHORT];

    name_record(a, key, name, sizeof name);
    secret_id_text(secret->id, id);
    return error_set(
        TUTTI_ERR_STORE,
        "group %s: %s in the store, key \"/%s\", %s of this job's secret (%s, id %s): somebody who "
        "is no "
        "member writes to the store, or another job uses the same keys; give each job a store or a "
        "run id of its own",
        a->group->name, name, key, state == SEAL_MISSING ? "lacks the seal" : "has no valid seal",
        secret_source_words(secret->source), id);
}

static void describe(const struct seal *seal, char *ret_words, size_t capacity)
{
    char id[SECRET_ID_SHORT];

    secret_id_text(seal->id, id);
    if (seal->source == SECRET_NONE || seal->source == SECRET_UNUSABLE)
        snprintf(ret_words, capacity, "%s", secret_source_words(seal->source));
    else
        snprintf(ret_words, capacity, "%s, id %s", secret_source_words(seal->source), id);
}

tutti_status agree_secrets_error(const struct agreement *a, const struct seal *first, int rank,
                                 const struct seal *other)
{
    char one[64], two[64];

    describe(first, one, sizeof one);
    describe(other, two, sizeof two);
    return error_set(
        TUTTI_ERR_MISMATCH,
        "group %s: members have different secrets: rank 0: %s; rank %d: %s; set "
        "TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks (tutti secret shows the id)",
        a->group->name, one, rank, two);
}

/* The seal of a record that may be of any secret; false: it has none, or there is no record. */
static bool read_seal(struct agreement *a, int rank, struct seal *ret_seal)
{
    const struct secret *secret = a->group->bootstrap.secret;
    char key[AGREE_KEY_MAX];
    tutti_store_value value;
    enum seal_state state;

    agree_key(a, key, "offer/%d", rank);
    if (!agree_has(a, key) || agree_get(a, key, &value))
        return false;
    const bool good =
        !seal_check(secret, &secret->record, key, value.data, value.size, ret_seal, &state) &&
        state != SEAL_MISSING;
    tutti_store_value_free(&value);
    return good;
}

/*
 * A record has another secret's seal, which says nothing that can be believed. If offers show that the
 * members have different ones, these are named as the leader names them.
 */
tutti_status agree_other_secret(struct agreement *a, const char *key, const struct seal *seal)
{
    const struct secret *secret = a->group->bootstrap.secret;
    struct seal first, other;

    if (!read_seal(a, 0, &first))
        first = *seal;
    for (int r = 1; r < a->group->size; r++)
        if (read_seal(a, r, &other) && memcmp(other.id, first.id, sizeof first.id) != 0)
            return agree_secrets_error(a, &first, r, &other);
    if (a->group->rank && memcmp(first.id, secret->id, sizeof first.id) != 0) {
        other = (struct seal){.source = secret->source};
        memcpy(other.id, secret->id, sizeof other.id);
        return agree_secrets_error(a, &first, a->group->rank, &other);
    }
    return bad_record(a, key, SEAL_FOREIGN);
}

/* ---- reading ---- */

tutti_status agree_look_at_seal(const struct agreement *a, const char *key,
                                tutti_store_value *value, struct seal *ret_seal,
                                enum seal_state *ret_state)
{
    const struct secret *secret = a->group->bootstrap.secret;
    tutti_status status =
        seal_check(secret, &secret->record, key, value->data, value->size, ret_seal, ret_state);

    if (!status && (*ret_state == SEAL_MISSING || *ret_state == SEAL_WRONG))
        status = bad_record(a, key, *ret_state);
    if (!status)
        value->size -= SEAL_BYTES;
    return status;
}

tutti_status agree_unseal(struct agreement *a, const char *key, tutti_store_value *value)
{
    struct seal seal;
    enum seal_state state;
    tutti_status status = agree_look_at_seal(a, key, value, &seal, &state);

    if (!status && state == SEAL_FOREIGN && a->group->bootstrap.secret->required)
        status = agree_other_secret(a, key, &seal);
    return status;
}
