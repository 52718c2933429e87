/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seal behind each record of a job in the store: whose secret wrote it, and a MAC over the record and
 * its key, so that nobody without the secret makes a record, changes one or puts it in another place.
 *
 * The source and the id of a secret are there for words, when members have different ones. They are under
 * the MAC, but a reader with another secret cannot check that: it believes nothing that they say.
 */
#pragma once

#include "secret/secret.h"

enum { SEAL_BYTES = 4 + 1 + SECRET_ID_BYTES + KEY_MAC_BYTES };

/* What a seal says of its writer. */
struct seal {
    enum secret_source source;
    bool required; /* the writer goes on with none but those that have its secret */
    uint8_t id[SECRET_ID_BYTES];
};

enum seal_state {
    SEAL_GOOD,
    SEAL_FOREIGN, /* of another secret; not checked */
    SEAL_WRONG,   /* of this one, it says, and it is not */
    SEAL_MISSING
};

/* Seals the record under the key `name` of the store; `record` is a key as secret_begin_run() derives
 * it. */
tutti_status seal_make(const struct secret *secret, const struct key *record, const char *name,
                       const void *body, size_t bytes, uint8_t ret_seal[SEAL_BYTES]);
/* Judges a record with its seal; unless that is MISSING, the body is what is before the last SEAL_BYTES, and
 * `ret_seal` is filled in. */
tutti_status seal_check(const struct secret *secret, const struct key *record, const char *name,
                        const void *value, size_t bytes, struct seal *ret_seal,
                        enum seal_state *ret_state);
