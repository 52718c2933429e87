/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tune_store.h"

#include <stdlib.h>

#include "bench/measure.h"

enum { OPEN_MS = 10000 };

tutti_status tune_store_open(const struct tune_job *job, struct tune_store *ret_store)
{
    const char *host = getenv("TUTTI_STORE") ? NULL : getenv("MASTER_ADDR");
    struct tune_store store = {0};
    double port = 0;

    /* If it cannot serve there, another process serves the store: that one takes any number of worlds. */
    if (host && job->rank == 0 && !tutti_store_server_start(host, 0, &store.server))
        port = tutti_store_server_port(store.server);
    tutti_status status = measure_over_ranks(job->world, &port, 1, TUTTI_MAX);
    if (!status && port > 0)
        status = tutti_store_open_tcp(host, (uint16_t)port, OPEN_MS, &store.store);
    if (status) {
        tune_store_close(&store);
        return status;
    }
    *ret_store = store;
    return TUTTI_OK;
}

void tune_store_close(struct tune_store *store)
{
    tutti_store_unref(store->store);
    tutti_store_server_stop(store->server);
    *store = (struct tune_store){0};
}
