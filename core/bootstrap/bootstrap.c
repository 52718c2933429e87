/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/bootstrap.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "bootstrap/address.h"
#include "bootstrap/identity.h"

static const char *variable_of_process(const char *name, void *user)
{
    (void)user;
    return getenv(name);
}

/* What is left for a call of the store, for which 0 would mean its own default. */
static tutti_status time_left(int64_t deadline_ns, int64_t *ret_ms)
{
    const int64_t ms = clock_left_ms(deadline_ns, INT_MAX);

    if (!ms)
        return error_set(TUTTI_ERR_TIMEOUT, "the deadline had passed before the store was opened");
    *ret_ms = ms;
    return TUTTI_OK;
}

static tutti_status serve(const struct identity *identity, struct bootstrap *bootstrap)
{
    const struct url *store = &identity->store;
    tutti_status status = tutti_store_server_start(store->host, store->port, &bootstrap->server);

    if (!status || identity->may_be_client)
        return TUTTI_OK;
    return error_prefix(
        "rank 0 serves the store at %s port %u, which must be an address of this host "
        "and free (TUTTI_STORE_HOST=0 if another process serves it)",
        store->host, store->port);
}

static tutti_status open_tcp(const struct identity *identity, struct bootstrap *bootstrap)
{
    const struct url *store = &identity->store;
    tutti_status status = identity->hosts ? serve(identity, bootstrap) : TUTTI_OK;
    int64_t ms;

    if (!status)
        status = time_left(bootstrap->deadline_ns, &ms);
    if (!status)
        status = tutti_store_open_tcp(store->host, store->port, ms, &bootstrap->store);
    return status;
}

static tutti_status open_file(const struct identity *identity, struct bootstrap *bootstrap)
{
    int64_t ms;
    tutti_status status = time_left(bootstrap->deadline_ns, &ms);

    if (!status)
        status = tutti_store_open_file(identity->store.path, identity->size, ms, &bootstrap->store);
    return status;
}

static tutti_status open_store(const tutti_init_options *options, const struct identity *identity,
                               struct bootstrap *bootstrap)
{
    if (identity->given) {
        bootstrap->store = tutti_store_ref(options->store);
        return TUTTI_OK;
    }
    return identity->store.kind == URL_TCP ? open_tcp(identity, bootstrap)
                                           : open_file(identity, bootstrap);
}

tutti_status bootstrap_resolve(const tutti_init_options *options, int64_t deadline_ns,
                               struct bootstrap *ret_bootstrap)
{
    struct bootstrap bootstrap = {.deadline_ns = deadline_ns};
    tutti_init_options known;
    struct identity identity;

    tutti_status status = options_copy(&known, sizeof known, options, "tutti_init_options");
    if (!status)
        status = identity_resolve(&known, variable_of_process, NULL, &identity);
    if (status)
        return status;

    bootstrap.rank = identity.rank;
    bootstrap.size = identity.size;
    bootstrap.restart = identity.restart;
    memcpy(bootstrap.run_id, identity.run_id, sizeof bootstrap.run_id);
    memcpy(bootstrap.source, identity.source, sizeof bootstrap.source);
    status = open_store(&known, &identity, &bootstrap);
    if (status) {
        bootstrap_release(&bootstrap);
        error_where(identity.rank, -1, 0, NULL);
        return error_prefix("rank %d of %d (%s)", identity.rank, identity.size, identity.source);
    }
    address_of_route(bootstrap.store, bootstrap.bind_address);
    *ret_bootstrap = bootstrap;
    return TUTTI_OK;
}

void bootstrap_release(struct bootstrap *bootstrap)
{
    tutti_store_unref(bootstrap->store);
    tutti_store_server_stop(bootstrap->server);
    *bootstrap = (struct bootstrap){.store = NULL};
}
