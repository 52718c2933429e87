/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transports of a group: opening them, what they may ask of the core (host services), and the memory that
 * local peers map. The ways to all members are in routes.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "group/group.h"
#include "plugin/about.h"
#include "plugin/host.h"
#include "plugin/plugin.h"
#include "provider/checksum.h"
#include "provider/endpoints.h"
#include "provider/native.h"
#include "provider/routes.h"
#include "provider/wrap.h"
#include "reduce/reduce.h"
#include "secret/tls.h"

/* ---- host services; `self` is the endpoint's or the team's struct host_user ---- */

static tutti_status host_share_start(void *self, tutti_host_mates *local,
                                     const int32_t *descriptors, uint32_t count,
                                     tutti_exchange **ret_exchange)
{
    (void)self;
    return local_share_start((struct local_peers *)local, descriptors, count, ret_exchange);
}

static tutti_status host_share_test(void *self, tutti_exchange *exchange, int32_t *ret_descriptors)
{
    struct host_user *user = self;

    return local_share_test(user->group->local, exchange, ret_descriptors);
}

static void host_wake_mate(void *self, tutti_host_mates *local, uint32_t index)
{
    (void)self;
    local_notify((struct local_peers *)local, (int)index);
}

static void suspect(struct host_user *user, uint64_t label, const char *message, bool link)
{
    if (label < (uint64_t)user->group->size)
        user->group->upcalls->suspect(user->group, (int)label, user->name, message, link);
}

static void host_peer_lost(void *self, uint64_t label, const char *message)
{
    suspect(self, label, message, false);
}

static void host_link_lost(void *self, uint64_t label, const char *message)
{
    suspect(self, label, message, true);
}

static tutti_status host_keep_waiting(void *self)
{
    struct host_user *user = self;
    const tutti_status status = user->group->upcalls->keep_waiting(user->group);

    if (status && status != TUTTI_ERR_TIMEOUT)
        user->status = status; /* it has a message, or the agreement has */
    return status;
}

static tutti_status host_reduce_local(void *self, uint32_t dtype, int32_t op, void *dst,
                                      const void *a, const void *b, uint64_t count)
{
    tutti_status status = reduce_check(op, dtype);

    (void)self;
    if (!status)
        reduce_kernel(dtype, op)(dst, a, b, count);
    return status;
}

/* A key of the group and of this plugin. */
static tutti_status key_of(const struct host_user *user, const char *purpose, struct key *ret_key)
{
    return key_derive(user->group->control->group_key, purpose, user->name, strlen(user->name),
                      ret_key);
}

static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    struct key key;
    tutti_status status = key_of(self, "transport", &key);

    if (!status)
        status = key_hmac(key.bytes, sizeof key.bytes, &(struct key_part){data, bytes}, 1, ret_mac);
    key_wipe(&key, sizeof key);
    return status;
}

tutti_status host_token(const struct host_user *user, uint8_t ret_token[16])
{
    struct key key;
    tutti_status status = key_of(user, "token", &key);

    if (!status)
        memcpy(ret_token, key.bytes, 16);
    key_wipe(&key, sizeof key);
    return status;
}

static tutti_status make_tls_keys(struct host_user *user)
{
    struct key key;
    tutti_status status = user->keys ? TUTTI_OK : key_of(user, "tls", &key);

    if (status || user->keys)
        return status;
    status = tls_keys_new(&key, &user->keys);
    key_wipe(&key, sizeof key);
    return status;
}

static tutti_status host_channel_open(void *self, int32_t fd, int32_t listens,
                                      tutti_channel **ret_channel)
{
    struct host_user *user = self;
    tutti_status status = make_tls_keys(user);
    struct tls *tls;

    if (!status)
        status = listens ? tls_accept(user->keys, fd, &tls) : tls_dial(user->keys, fd, &tls);
    if (!status)
        *ret_channel = (tutti_channel *)tls;
    return status;
}

static void host_channel_close(tutti_channel *channel)
{
    tls_free((struct tls *)channel);
}

static int64_t host_channel_send(tutti_channel *channel, const tutti_piece *pieces, uint32_t count)
{
    return tls_send((struct tls *)channel, pieces, count);
}

static int64_t host_channel_recv(tutti_channel *channel, void *data, uint64_t bytes)
{
    return tls_recv((struct tls *)channel, data, bytes);
}

static int32_t host_channel_has_unread(const tutti_channel *channel)
{
    return tls_has_unread((const struct tls *)channel);
}

/* In time for the group to be made; later as long as a call of the group may take. */
static tutti_status host_gather_start(void *self, const void *bytes, uint64_t count,
                                      tutti_exchange **ret_exchange)
{
    const struct host_user *user = self;
    const int64_t later = clock_deadline_ms(user->group->timeout_ms);
    const int64_t made = user->group->bootstrap.deadline_ns;
    struct gather *gather;
    tutti_status status = gather_start(user->group->control, (uint32_t)user->place, user->name,
                                       bytes, count, clock_now_ns() < made ? made : later, &gather);

    if (!status)
        *ret_exchange = (tutti_exchange *)gather;
    return status;
}

static tutti_status host_gather_test(void *self, tutti_exchange *exchange, void *ret_all)
{
    const struct host_user *user = self;

    return gather_test(user->group->control, (struct gather *)exchange, ret_all);
}

const tutti_host endpoint_services = {
    HOST_SERVICES(host),
    .share_start = host_share_start,
    .share_test = host_share_test,
    .wake_mate = host_wake_mate,
    .peer_lost = host_peer_lost,
    .link_lost = host_link_lost,
    .reduce_local = host_reduce_local,
    .keep_waiting = host_keep_waiting,
    .mac = host_mac,
    .channel_open = host_channel_open,
    .channel_close = host_channel_close,
    .channel_send = host_channel_send,
    .channel_recv = host_channel_recv,
    .channel_has_unread = host_channel_has_unread,
    .gather_start = host_gather_start,
    .gather_test = host_gather_test,
};

/* ---- opening and closing ---- */

tutti_status endpoint_take_address(struct tutti_group *group, int level, const char *name,
                                   tutti_status (*address)(void *of, void *ret_address,
                                                           uint64_t capacity, uint64_t *ret_bytes),
                                   void *of)
{
    struct control_member *me = &group->control->members[group->rank];
    AUTOFREE uint8_t *buffer = malloc(CONTROL_PROVIDER_ADDRESS_MAX);
    uint64_t bytes = 0;

    if (!buffer)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an address");
    tutti_status status = address(of, buffer, CONTROL_PROVIDER_ADDRESS_MAX, &bytes);
    if (!status && bytes > CONTROL_PROVIDER_ADDRESS_MAX)
        status =
            error_set(TUTTI_ERR_PLUGIN,
                      "%s has an address of %llu bytes, more than the %d that a plugin may have",
                      name, (unsigned long long)bytes, CONTROL_PROVIDER_ADDRESS_MAX);
    if (status)
        return status;
    free(me->provider_address[level]);
    me->provider_address[level] = TAKE(buffer);
    me->provider_address_size[level] = (uint32_t)bytes;
    return TUTTI_OK;
}

static tutti_status address_of(void *of, void *ret_address, uint64_t capacity, uint64_t *ret_bytes)
{
    const struct endpoint *endpoint = of;

    return endpoint->ops->address(endpoint->endpoint, ret_address, capacity, ret_bytes);
}

tutti_status endpoint_check_threads(const char *name, uint32_t threads)
{
    if (threads <= TUTTI_THREADS_CALLERS_ONLY)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_UNSUPPORTED,
                     "backend %s must be called from the program's first thread only (%u), which "
                     "this version of tutti does not support",
                     name, threads);
}

tutti_status endpoint_open(struct tutti_group *group, int level, const char *name)
{
    struct endpoint *endpoint = &group->ways.endpoints[level];
    tutti_endpoint_options options = {.struct_size = sizeof options,
                                      .rank = group->rank,
                                      .size = group->size,
                                      .bind_address = group->bootstrap.bind_address,
                                      .run_id = group->bootstrap.run_id,
                                      .deadline_ns = group->bootstrap.deadline_ns};
    const tutti_plugin *plugin;

    tutti_status status = plugin_find(name, &plugin);
    if (status)
        return status;
    *endpoint = (struct endpoint){.user = {.rank = group->rank, .place = level, .group = group},
                                  .wait_fd = -1};
    snprintf(endpoint->user.name, sizeof endpoint->user.name, "%s", name);
    endpoint->cost = plugin_cost(plugin);
    const tutti_transport_ops *ops = plugin_transport(plugin);
    if (!ops)
        return error_set(TUTTI_ERR_PLUGIN, "backend %s offers no transport", name);
    status = endpoint_check_threads(name, ops->threads);
    if (status)
        return status;
    status = host_token(&endpoint->user, options.token);
    if (status)
        return status;
    if (group->control->encrypts && ops->capabilities & TUTTI_CAP_ENCRYPTS)
        options.flags |= TUTTI_ENDPOINT_ENCRYPT;
    status = ops->open(&endpoint_services, &endpoint->user, &options, &endpoint->endpoint);
    if (status)
        return status;
    plugin_started(plugin, TUTTI_PROVIDER_TRANSPORT);
    endpoint->ops = ops;
    endpoint->inmost = endpoint->endpoint;
    group->needs.callers_only |= ops->threads == TUTTI_THREADS_CALLERS_ONLY;
    if (group->ways.wrappers)
        status = wrappers_transport(group, endpoint);
    if (!status && group->has_checksums)
        status = checksum_transport(&endpoint->ops, &endpoint->endpoint);
    return status ? status
                  : endpoint_take_address(group, level, endpoint->user.name, address_of, endpoint);
}

void endpoints_close(struct tutti_group *group)
{
    struct endpoint *mapping = &group->ways.endpoints[group->ways.map_level];

    native_close(group);
    if (group->ways.map)
        mapping->ops->map_close(mapping->endpoint, group->ways.map);
    group->ways.map = NULL;
    for (int level = 0; level < TRANSPORTS; level++) {
        struct endpoint *endpoint = &group->ways.endpoints[level];

        if (endpoint->wait_fd >= 0)
            engine_unwatch(&group->context->engine, endpoint->wait_fd);
        if (endpoint->ops)
            endpoint->ops->close(endpoint->endpoint);
        tls_keys_free(endpoint->user.keys);
        *endpoint = (struct endpoint){.wait_fd = -1};
    }
    p2p_engine_free(group->ways.p2p_engine);
    group->ways.p2p_engine = NULL;
}

/* ---- messages and mapped memory ---- */

static tutti_status add_endpoint(struct tutti_group *group, struct endpoint *endpoint)
{
    tutti_status status = p2p_engine_add_endpoint(group->ways.p2p_engine, endpoint->ops,
                                                  endpoint->endpoint, &endpoint->index);

    if (status || !TUTTI_HAS(endpoint->ops, wait_fd))
        return status;
    status = endpoint->ops->wait_fd(endpoint->endpoint, &endpoint->wait_fd);
    return status ? status : engine_watch(&group->context->engine, endpoint->wait_fd);
}

/* The first backend between local peers, the group's own or a rule's, that maps memory. */
static int find_map_level(const struct tutti_group *group)
{
    for (int i = 0; i < group->ways.routes.count; i++) {
        const int level = group->ways.routes.each[i].way.inside;
        const tutti_transport_ops *ops = group->ways.endpoints[level].ops;

        if (ops && ops->capabilities & TUTTI_CAP_MAP)
            return level;
    }
    return LOCAL;
}

static tutti_status start_map(struct tutti_group *group, const int *host_of)
{
    struct endpoint *mapping = &group->ways.endpoints[group->ways.map_level];
    struct local_peers *local = group->local;
    int count = 0;

    if (!local || local->count < 2 || !mapping->ops ||
        !(mapping->ops->capabilities & TUTTI_CAP_MAP) || !TUTTI_HAS(mapping->ops, map_start))
        return TUTTI_OK;
    AUTOFREE tutti_peer **peers = calloc((size_t)local->count, sizeof *peers);
    if (!peers)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d local peers", local->count);
    for (int r = 0; r < group->size; r++)
        if (host_of[r] == host_of[group->rank] && count < local->count)
            peers[count++] = group->ways.routes.links[group->ways.map_level].peers[r];
    return mapping->ops->map_start(mapping->endpoint, (tutti_host_mates *)local, peers,
                                   (uint32_t)local->count, (uint32_t)local->self, MAPPED_BYTES,
                                   &group->ways.map);
}

tutti_status endpoints_connect(struct tutti_group *group, const int *host_of)
{
    tutti_status status = routes_connect(group, host_of);

    group->ways.map_level = find_map_level(group);
    return status ? status : start_map(group, host_of);
}

tutti_status endpoints_start_messages(struct tutti_group *group, const int *host_of)
{
    tutti_status status = p2p_engine_new(&group->ways.p2p_engine);

    for (int level = 0; level < TRANSPORTS && !status; level++)
        if (group->ways.endpoints[level].ops)
            status = add_endpoint(group, &group->ways.endpoints[level]);
    return status ? status : routes_start(group, host_of);
}

tutti_status endpoints_map_test(struct tutti_group *group)
{
    struct endpoint *mapping = &group->ways.endpoints[group->ways.map_level];
    struct local_peers *local = group->local;

    if (!group->ways.map || group->ways.has_mapped)
        return TUTTI_OK;
    AUTOFREE void **bases = calloc((size_t)local->count, sizeof *bases);
    AUTOFREE int *ranks = calloc((size_t)local->count, sizeof *ranks);
    AUTOFREE int *processes = calloc((size_t)local->count, sizeof *processes);
    if (!bases || !ranks || !processes)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for mapped memory");
    for (int i = 0; i < local->count; i++) {
        ranks[i] = local->peers[i].rank;
        processes[i] = local_process_number(local, i);
    }
    tutti_status status = mapping->ops->map_test(mapping->endpoint, group->ways.map, bases);
    if (group->has_checksums) /* only the transport's own part of the memory is used */
        return status;
    if (!status)
        status = mapped_init(&group->ways.mapped, local->count, local->self, bases, ranks);
    group->ways.has_mapped = !status;
    if (!status) {
        mapped_tell_l2(&group->ways.mapped, cpu_l2_bytes());
        mapped_tell_session(&group->ways.mapped, (uint64_t)getsid(0));
        mapped_tell_l3(&group->ways.mapped, cpu_cache_share((uint32_t)local->count));
        peer_reads_begin(&group->ways.mapped, processes, environment_lets_peers_read());
    }
    return status;
}
