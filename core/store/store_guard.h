/* SPDX-License-Identifier: Apache-2.0 */
/* Admits clients to the store that this process serves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "secret/secret.h"
#include "store/store_peer.h"

enum { STORE_GUARD_NAMES = 8 };

struct store_guard {
    struct store_peers peers;
    bool open;                        /* to everybody who reaches the port */
    uid_t refused[STORE_GUARD_NAMES]; /* whom the log names already */
    unsigned refused_count;
    bool told_hidden, told_unproven;
    struct secret *secret; /* NULL: none is needed */
};

enum store_admission {
    STORE_REFUSED,
    STORE_UNKNOWN,    /* served with smaller limits, and may prove itself */
    STORE_MUST_PROVE, /* served once it has proven that it has the secret */
    STORE_KNOWN       /* of this user */
};

/* `listen_fd` listens at `port` already; `handed` is the launcher's secret, or NULL. */
void store_guard_init(struct store_guard *guard, int listen_fd, uint16_t port,
                      const struct key *handed);
void store_guard_free(struct store_guard *guard);

enum store_admission store_guard_admit(struct store_guard *guard, int fd);
/* A client that had to prove itself has not. */
void store_guard_say_unproven(struct store_guard *guard, int fd);
