/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a group that is about to be made: found or served as its identity says, opened, and
 * held for as long as somebody may still read from it.
 *
 * The server of a world is shared with the groups that are made from it; the last one that releases
 * it stops it. A store that is used for other things too, given or inherited, is used as it is:
 * connections cost their server, and some look each up by name. Its calls queue behind each other,
 * so members that meet in it do not block in a call but poll.
 */
#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "bootstrap/identity.h"
#include "bootstrap/launcher.h"
#include "store/store.h"

enum {
    GONE_MS = 300,       /* for a server that lives to answer */
    DRAIN_MS = 2000,     /* for others to read how a group ended that never was */
    DRAIN_LAST_MS = 1000 /* the same after the deadline, which theirs is not far from */
};

_Static_assert((int)BOOTSTRAP_ADDRESS_MAX == (int)STORE_ADDRESS_ROOM, "one room for addresses");

/* The server of a world, which the groups that are made from it keep alive. */
struct bootstrap_server {
    tutti_store_server *server;
    _Atomic int holders;
};

/* The time left for a call of the store, at least 1 ms: 0 would mean the store's own default. */
static tutti_status time_left(int64_t deadline_ns, int64_t *ret_ms)
{
    const int64_t ms = clock_left_ms(deadline_ns, INT_MAX);

    if (!ms)
        return error_set(TUTTI_ERR_TIMEOUT,
                         "the timeout of tutti_init() passed before the store was opened");
    *ret_ms = ms;
    return TUTTI_OK;
}

static tutti_status serve(const struct identity *identity, const struct key *handed,
                          struct bootstrap *bootstrap)
{
    const struct url *store = &identity->store;
    struct bootstrap_server *server = calloc(1, sizeof *server);

    if (!server)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the store's server");
    server->holders = 1;
    if (!store_server_start(store->host, store->port, handed, &server->server)) {
        bootstrap->server = server;
        return TUTTI_OK;
    }
    free(server);
    if (identity->may_be_client)
        return TUTTI_OK;
    tutti_error_info info = {.struct_size = sizeof info};
    if (!tutti_last_error_info(&info) && info.system_errno == EADDRINUSE)
        return error_prefix("rank 0 cannot serve the store at %s port %u: another job, or a second "
                            "process with RANK=0, uses this port; give each job its own port and "
                            "each process its own RANK (TUTTI_STORE_HOST=0 if another process "
                            "serves this store)",
                            store->host, store->port);
    return error_prefix(
        "rank 0 cannot serve the store at %s port %u (it must be an address of this "
        "host; TUTTI_STORE_HOST=0 if another process serves it)",
        store->host, store->port);
}

static tutti_status open_store(const struct identity *identity, const struct key *handed,
                               struct bootstrap *bootstrap)
{
    const struct url *store = &identity->store;
    const char *keeper = *bootstrap->keeper ? bootstrap->keeper : NULL;
    int64_t ms = 0;

    if (identity->given) {
        bootstrap->store = tutti_store_ref(identity->given);
        bootstrap->shared = true;
        return TUTTI_OK;
    }
    if (identity->alone)
        return tutti_store_open_hash(&bootstrap->store);
    tutti_status status = identity->hosts ? serve(identity, handed, bootstrap) : TUTTI_OK;
    if (!status)
        status = time_left(bootstrap->deadline_ns, &ms);
    if (status)
        return status;
    return store->kind == URL_TCP
               ? store_open_member(store->host, store->port, keeper, handed, bootstrap->rank, ms,
                                   &bootstrap->store)
               : tutti_store_open_file(store->path, identity->size, ms, &bootstrap->store);
}

/* ---- the address of this host ---- */

/* The local end of the route to a numeric address; nothing is sent. */
static bool local_end(const char *to, char ret_address[BOOTSTRAP_ADDRESS_MAX])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;

    if (getaddrinfo(to, "9", &hints, &found))
        return false;
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen) &&
                 !getsockname(fd, (struct sockaddr *)&name, &length) &&
                 !getnameinfo((struct sockaddr *)&name, length, ret_address, BOOTSTRAP_ADDRESS_MAX,
                              NULL, 0, NI_NUMERICHOST);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return known;
}

void bootstrap_own_address(char ret_address[BOOTSTRAP_ADDRESS_MAX])
{
    /* Reserved for documentation (RFC 5737, RFC 3849), so that only a default route leads there. */
    if (!local_end("192.0.2.1", ret_address) && !local_end("2001:db8::1", ret_address))
        strcpy(ret_address, "127.0.0.1");
}

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

/* ---- the bootstrap ---- */

void bootstrap_name_keeper(const char *host, unsigned port, char ret_name[BOOTSTRAP_KEEPER_MAX])
{
    snprintf(ret_name, BOOTSTRAP_KEEPER_MAX, "rank 0, which serves the store at %s:%u", host, port);
}

tutti_status bootstrap_identify(const tutti_init_options *options, struct identity *ret_identity)
{
    tutti_init_options known;
    tutti_status status = options_copy(&known, sizeof known, options, "tutti_init_options");

    return status ? status : identity_resolve(&known, identity_own_variable, NULL, ret_identity);
}

tutti_status bootstrap_resolve(const tutti_init_options *options, const struct key *handed,
                               int64_t deadline_ns, struct bootstrap *ret_bootstrap)
{
    struct identity identity;
    tutti_status status = bootstrap_identify(options, &identity);

    if (status)
        return status;
    struct bootstrap bootstrap = {.rank = identity.rank,
                                  .size = identity.size,
                                  .restart = identity.restart,
                                  .deadline_ns = deadline_ns};
    memcpy(bootstrap.run_id, identity.run_id, sizeof bootstrap.run_id);
    memcpy(bootstrap.source, identity.source, sizeof bootstrap.source);
    if (identity.store.kind == URL_TCP) {
        memcpy(bootstrap.host, identity.store.host, sizeof identity.store.host);
        bootstrap.port = identity.store.port;
    }
    if (identity.served_by_0)
        bootstrap_name_keeper(bootstrap.host, bootstrap.port, bootstrap.keeper);
    status = open_store(&identity, handed, &bootstrap);
    if (status) {
        bootstrap_release(&bootstrap);
        error_where(identity.rank, status == TUTTI_ERR_PEER_LOST ? 0 : -1, 0, NULL);
        if (status == TUTTI_ERR_PEER_LOST) /* the same on all members that miss it */
            return status;
        return error_prefix("rank %d of %d (%s)", identity.rank, identity.size, identity.source);
    }
    store_local_address(bootstrap.store, bootstrap.bind_address);
    bootstrap.one_host = is_loopback(bootstrap.bind_address) || identity.alone ||
                         (!identity.given && identity.store.kind == URL_FILE);
    if (!*bootstrap.bind_address) /* a file, which may be on a network file system, has no route */
        bootstrap_own_address(bootstrap.bind_address);
    *ret_bootstrap = bootstrap;
    return TUTTI_OK;
}

tutti_status bootstrap_adopt(struct bootstrap *bootstrap, struct launcher *launcher)
{
    struct bootstrap_server *shared = launcher->server ? calloc(1, sizeof *shared) : NULL;

    if (launcher->server && !shared)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the store's server");
    if (shared) {
        shared->server = launcher->server;
        shared->holders = 1;
        bootstrap->server = shared;
        launcher->server = NULL;
    }
    snprintf(bootstrap->source, sizeof bootstrap->source, "%s", launcher->source);
    snprintf(bootstrap->host, sizeof bootstrap->host, "%s", launcher->host);
    bootstrap->port = launcher->port;
    bootstrap_name_keeper(bootstrap->host, bootstrap->port, bootstrap->keeper);
    return TUTTI_OK;
}

bool bootstrap_is_outlived(const struct bootstrap *bootstrap)
{
    return *bootstrap->keeper && !bootstrap->server && bootstrap->was_here &&
           store_is_gone(bootstrap->store, GONE_MS);
}

bool bootstrap_lost_rank_0(const struct bootstrap *bootstrap)
{
    if (!*bootstrap->keeper || bootstrap->server || !store_is_gone(bootstrap->store, GONE_MS))
        return false;
    store_server_lost(bootstrap->keeper);
    return true;
}

/* The launcher's secret, or NULL. */
static const struct key *handed(const struct bootstrap *bootstrap)
{
    return bootstrap->secret && bootstrap->secret->source == SECRET_FROM_LAUNCHER
               ? &bootstrap->secret->key
               : NULL;
}

tutti_status bootstrap_reopen(struct bootstrap *bootstrap)
{
    tutti_store *store;
    int64_t ms = 0;
    tutti_status status = time_left(bootstrap->deadline_ns, &ms);

    if (!status)
        status = store_open_member(bootstrap->host, bootstrap->port, bootstrap->keeper,
                                   handed(bootstrap), bootstrap->rank, ms, &store);
    if (status)
        return status;
    tutti_store_unref(bootstrap->store);
    bootstrap->store = store;
    return TUTTI_OK;
}

void bootstrap_inherit(const struct bootstrap *parent, int rank, int size, int64_t deadline_ns,
                       struct bootstrap *ret_bootstrap)
{
    *ret_bootstrap = *parent;
    ret_bootstrap->shared = true;
    tutti_store_ref(parent->store);
    secret_ref(parent->secret);
    if (parent->server)
        atomic_fetch_add(&parent->server->holders, 1);
    ret_bootstrap->rank = rank;
    ret_bootstrap->size = size;
    ret_bootstrap->deadline_ns = deadline_ns;
}

tutti_status bootstrap_meet(const struct bootstrap *bootstrap, int64_t ms, tutti_store **ret_store)
{
    static const char *const any = "tutti";
    int32_t present;

    /* A store that is gone says so before anything is begun. */
    if (bootstrap->shared && tutti_store_check(bootstrap->store, &any, 1, ms, &present))
        return error_prefix("cannot reach the store, which is needed to make a group");
    *ret_store = tutti_store_ref(bootstrap->store);
    return TUTTI_OK;
}

void bootstrap_tell(const struct bootstrap *bootstrap, const char *key, const void *data,
                    size_t size, int64_t ms)
{
    tutti_store *fresh;

    if (!tutti_store_set(bootstrap->store, key, data, size, ms) ||
        store_clone(bootstrap->store, ms, &fresh))
        return;
    (void)tutti_store_set(fresh, key, data, size, ms);
    tutti_store_unref(fresh);
}

tutti_store_server *bootstrap_take_server(struct bootstrap *bootstrap)
{
    struct bootstrap_server *shared = bootstrap->server;
    tutti_store_server *server = NULL;

    bootstrap->server = NULL;
    if (shared && atomic_fetch_sub(&shared->holders, 1) == 1) {
        server = shared->server;
        free(shared);
    }
    return server;
}

void bootstrap_release(struct bootstrap *bootstrap)
{
    const int left = clock_left_ms(bootstrap->deadline_ns, DRAIN_MS);

    tutti_store_unref(bootstrap->store);
    tutti_store_server *server = bootstrap_take_server(bootstrap);
    /* Others may still read the reason of the failure there. A stopped process never ends, so the
     * wait is limited. */
    store_server_drain(server, left > DRAIN_LAST_MS ? left : DRAIN_LAST_MS);
    tutti_store_server_stop(server);
    secret_unref(bootstrap->secret);
    *bootstrap = (struct bootstrap){.store = NULL};
}
