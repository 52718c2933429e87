/* SPDX-License-Identifier: Apache-2.0 */
/* The all-gathers that UCC asks its caller for, by tutti_host.gather_start. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/caller.h"
#include "../common/inherited.h"
#include "ucc_api.h"

/* On whose behalf UCC asks. As UCC may ask long after, it lives as long as what UCC has made with it. */
struct exchange {
    pthread_mutex_t lock;
    struct caller caller;
    bool is_over; /* nobody may be asked any more: every gather fails */
    int64_t deadline_ns;
    tutti_status status; /* that a gather failed with; OK: none has */
    bool is_late;        /* since the deadline had passed long ago */
    /* of the thread that makes the team */
    bool watches;
    struct descriptors before;
    struct listening *listening;
};

/* `listening`, of the context, gets the ports on which UCX listens. */
void exchange_begin(struct exchange *exchange, const struct caller *caller, int64_t deadline_ns,
                    struct listening *listening);
/* No service of the core is used once this has returned. */
void exchange_end(struct exchange *exchange);
bool exchange_is_over(struct exchange *exchange);
/* What UCX opens between them becomes close-on-exec, but not what others open while UCC waits for members. Under
 * the engine's lock. */
void exchange_watch(struct exchange *exchange);
void exchange_unwatch(struct exchange *exchange);

/* What UCC gets. `exchange` has to outlive it. */
ucci_oob exchange_oob(struct exchange *exchange, uint32_t members, uint32_t place);
