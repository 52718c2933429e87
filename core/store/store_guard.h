/* SPDX-License-Identifier: Apache-2.0 */
/* Admits clients to the store that this process serves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store_peer.h"

enum { STORE_GUARD_NAMES = 8 };

struct store_guard {
    struct store_peers peers;
    bool open;                        /* to everybody who reaches the port */
    uid_t refused[STORE_GUARD_NAMES]; /* whom the log names already */
    unsigned refused_count;
    bool told_hidden;
};

/* `listen_fd` listens at `port` already. */
void store_guard_init(struct store_guard *guard, int listen_fd, uint16_t port);
void store_guard_free(struct store_guard *guard);

/* Whether a new connection may be served. `ret_known`: it is of this user. */
bool store_guard_admits(struct store_guard *guard, int fd, bool *ret_known);
