/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose launcher sets no variables that tutti reads: a plugin that knows the launcher
 * gives them their identity, and carries the address of a store and a secret from rank 0 to all.
 */
#pragma once

#include <stdbool.h>

#include <tutti/group.h>
#include <tutti/store.h>

#include "secret/key.h"

struct launcher {
    char job[96];       /* what options->run_id points to */
    tutti_store *store; /* what options->store points to, or NULL: the environment says it */
    tutti_store_server *server; /* rank 0's */
    char host[256];             /* of that server, where the store is its */
    uint16_t port;
    char source[256]; /* where rank, size and store came from, for messages */
    bool has_secret;
    struct key secret; /* of the job, made by rank 0 */
};

/*
 * Fills in rank, world_size, store and run_id of `options` where neither they nor the environment say
 * them and a plugin knows better; leaves them alone where no launcher is found. Ends with
 * launcher_release(), once the options were used.
 */
tutti_status launcher_ask(tutti_init_options *options, int64_t deadline_ns,
                          struct launcher *ret_launcher);
/* Stops the server, too, unless somebody has taken it, and wipes the secret. */
void launcher_release(struct launcher *launcher);
