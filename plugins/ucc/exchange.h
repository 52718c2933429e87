/* SPDX-License-Identifier: Apache-2.0 */
/* The all-gathers that UCC asks its caller for, by tutti_host.gather_start. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../ucx/caller.h"
#include "ucc_api.h"

/* On whose behalf UCC asks. As UCC may ask long after, it lives as long as what UCC has made with it. */
struct exchange {
    pthread_mutex_t lock;
    struct caller caller;
    bool is_over; /* nobody may be asked any more: every gather fails */
    int64_t deadline_ns;
    tutti_status status; /* that a gather failed with; OK: none has */
    bool is_late;        /* since the deadline had passed long ago */
};

void exchange_begin(struct exchange *exchange, const struct caller *caller, int64_t deadline_ns);
/* No service of the core is used once this has returned. */
void exchange_end(struct exchange *exchange);
bool exchange_is_over(struct exchange *exchange);
/* What UCC gets. `exchange` has to outlive it. */
ucci_oob exchange_oob(struct exchange *exchange, uint32_t members, uint32_t place);
