/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transports of a group: opening them, what they may ask of the core (host services), the ways
 * to all members, and the memory that host-mates map.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "group/group.h"
#include "group/native.h"
#include "group/wrap.h"
#include "plugin/host.h"
#include "plugin/plugin.h"
#include "reduce/reduce.h"

/* ---- host services; `self` is the endpoint ---- */

static void host_log(void *self, int32_t level, const char *words)
{
    struct endpoint *endpoint = self;

    log_line((enum log_level)level, endpoint->group->rank, "%s: %s", endpoint->name, words);
}

static const char *host_config(void *self, const char *key)
{
    struct endpoint *endpoint = self;

    return host_option(endpoint->name, key);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    struct endpoint *endpoint = self;

    endpoint->status = status;
    return system_errno ? error_set_errno(status, system_errno, "%s: %s", endpoint->name, words)
                        : error_set(status, "%s: %s", endpoint->name, words);
}

static tutti_status host_share_start(void *self, tutti_host_mates *mates,
                                     const int32_t *descriptors, uint32_t count,
                                     tutti_exchange **ret_exchange)
{
    (void)self;
    return mates_share_start((struct mates *)mates, descriptors, count, ret_exchange);
}

static tutti_status host_share_test(void *self, tutti_exchange *exchange, int32_t *ret_descriptors)
{
    struct endpoint *endpoint = self;

    return mates_share_test(endpoint->group->mates, exchange, ret_descriptors);
}

static void host_wake_mate(void *self, tutti_host_mates *mates, uint32_t index)
{
    (void)self;
    mates_wake((struct mates *)mates, (int)index);
}

static void host_peer_lost(void *self, uint64_t label, const char *words)
{
    struct endpoint *endpoint = self;
    struct tutti_group *group = endpoint->group;

    if (label < (uint64_t)group->size)
        group_suspect(group, (int)label, endpoint->name, words);
}

static void host_link_lost(void *self, uint64_t label, const char *words)
{
    struct endpoint *endpoint = self;
    struct tutti_group *group = endpoint->group;

    if (label < (uint64_t)group->size)
        group_suspect_link(group, (int)label, endpoint->name, words);
}

static tutti_status host_keep_waiting(void *self)
{
    struct endpoint *endpoint = self;
    const tutti_status status = agree_keep_waiting(endpoint->group);

    if (status && status != TUTTI_ERR_TIMEOUT)
        endpoint->status = status; /* it has words, or the agreement has */
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

const tutti_host endpoint_services = {
    .struct_size = sizeof(tutti_host),
    .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
    .log = host_log,
    .now_ns = host_now,
    .allocate = host_allocate,
    .release = host_release,
    .config = host_config,
    .error = host_error,
    .share_start = host_share_start,
    .share_test = host_share_test,
    .wake_mate = host_wake_mate,
    .peer_lost = host_peer_lost,
    .link_lost = host_link_lost,
    .reduce_local = host_reduce_local,
    .keep_waiting = host_keep_waiting,
};

/* ---- opening and closing ---- */

tutti_status endpoint_take_address(struct tutti_group *group, int level, const char *name,
                                   tutti_status (*address)(void *of, void *ret_address,
                                                           uint64_t capacity, uint64_t *ret_bytes),
                                   void *of)
{
    struct control_member *me = &group->control->members[group->rank];
    uint8_t *buffer = malloc(CONTROL_PROVIDER_ADDRESS_MAX);
    uint64_t bytes = 0;

    if (!buffer)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an address");
    tutti_status status = address(of, buffer, CONTROL_PROVIDER_ADDRESS_MAX, &bytes);
    if (status || bytes > CONTROL_PROVIDER_ADDRESS_MAX) {
        free(buffer);
        return status ? status
                      : error_set(TUTTI_ERR_PLUGIN, "%s has an address of %llu bytes", name,
                                  (unsigned long long)bytes);
    }
    free(me->provider_address[level]);
    me->provider_address[level] = buffer;
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
    return error_set(
        TUTTI_ERR_UNSUPPORTED,
        "backend %s wants to be called from the program's first thread only (%u), which "
        "this version of tutti does not do",
        name, threads);
}

tutti_status endpoint_open(struct tutti_group *group, int level, const char *name,
                           const uint8_t token[CONTROL_TOKEN_BYTES])
{
    struct endpoint *endpoint = &group->endpoints[level];
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
    memcpy(options.token, token, sizeof options.token);
    *endpoint = (struct endpoint){.group = group, .wait_fd = -1};
    snprintf(endpoint->name, sizeof endpoint->name, "%s", name);
    const tutti_transport_ops *ops = plugin_transport(plugin);
    if (!ops)
        return error_set(TUTTI_ERR_PLUGIN, "backend %s offers no transport", name);
    status = endpoint_check_threads(name, ops->threads);
    if (status)
        return status;
    status = ops->open(&endpoint_services, endpoint, &options, &endpoint->endpoint);
    if (status)
        return status;
    context_plugin_started(plugin, TUTTI_PROVIDER_TRANSPORT);
    endpoint->ops = ops;
    endpoint->inmost = endpoint->endpoint;
    group->callers_only |= ops->threads == TUTTI_THREADS_CALLERS_ONLY;
    if (group->wrappers)
        status = wrappers_transport(group, endpoint);
    return status ? status
                  : endpoint_take_address(group, level, endpoint->name, address_of, endpoint);
}

void endpoints_close(struct tutti_group *group)
{
    struct endpoint *mapping = &group->endpoints[group->map_level];

    native_close(group);
    if (group->map)
        mapping->ops->map_close(mapping->endpoint, group->map);
    group->map = NULL;
    for (int level = 0; level < TRANSPORTS; level++) {
        struct endpoint *endpoint = &group->endpoints[level];

        if (endpoint->wait_fd >= 0)
            engine_unwatch(&group->context->engine, endpoint->wait_fd);
        if (endpoint->ops)
            endpoint->ops->close(endpoint->endpoint);
        *endpoint = (struct endpoint){.group = group, .wait_fd = -1};
    }
    p2p_engine_free(group->p2p_engine);
    group->p2p_engine = NULL;
}

/* ---- ways to the members ---- */

static tutti_status add_endpoint(struct tutti_group *group, struct endpoint *endpoint)
{
    tutti_status status = p2p_engine_add_endpoint(group->p2p_engine, endpoint->ops,
                                                  endpoint->endpoint, &endpoint->index);

    if (status || !TUTTI_HAS(endpoint->ops, wait_fd))
        return status;
    status = endpoint->ops->wait_fd(endpoint->endpoint, &endpoint->wait_fd);
    return status ? status : engine_watch(&group->context->engine, endpoint->wait_fd);
}

/* The first backend between mates, the group's own or a rule's, that maps memory. */
static int find_map_level(const struct tutti_group *group)
{
    const struct endpoint *local = &group->endpoints[LOCAL];

    for (int i = 1;
         i < group->routes.count && !(local->ops && local->ops->capabilities & TUTTI_CAP_MAP);
         i++) {
        const int level = group->routes.each[i].way.inside;

        if (group->endpoints[level].ops->capabilities & TUTTI_CAP_MAP)
            return level;
    }
    return LOCAL;
}

static tutti_status start_map(struct tutti_group *group, const int *host_of)
{
    struct endpoint *mapping = &group->endpoints[group->map_level];
    struct mates *mates = group->mates;
    tutti_peer **peers;
    int count = 0;

    if (!mates || mates->count < 2 || !endpoint_maps(group, group->map_level) ||
        !TUTTI_HAS(mapping->ops, map_start))
        return TUTTI_OK;
    peers = calloc((size_t)mates->count, sizeof *peers);
    if (!peers)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d mates", mates->count);
    for (int r = 0; r < group->size; r++)
        if (host_of[r] == host_of[group->rank] && count < mates->count)
            peers[count++] = group->map_level == LOCAL
                                 ? group->members[r].peer
                                 : group->routes.links[group->map_level].peers[r];
    tutti_status status = mapping->ops->map_start(mapping->endpoint, (tutti_host_mates *)mates,
                                                  peers, (uint32_t)mates->count,
                                                  (uint32_t)mates->self, MAPPED_BYTES, &group->map);
    free(peers);
    return status;
}

static int level_of(const struct tutti_group *group, const int *host_of, int rank)
{
    bool is_mate = host_of[rank] == host_of[group->rank];

    return is_mate && group->endpoints[LOCAL].ops ? LOCAL : REMOTE;
}

tutti_status endpoint_connect(const struct tutti_group *group, int level, int rank,
                              tutti_peer **ret_peer)
{
    const struct endpoint *endpoint = &group->endpoints[level];
    const struct control_member *member = &group->control->members[rank];

    return endpoint->ops->connect(endpoint->endpoint, member->provider_address[level],
                                  member->provider_address_size[level], (uint64_t)rank, ret_peer);
}

tutti_status endpoints_connect(struct tutti_group *group, const int *host_of)
{
    tutti_status status = TUTTI_OK;

    for (int r = 0; r < group->size && !status; r++) {
        struct member *member = &group->members[r];

        member->peer = NULL;
        member->level = (uint8_t)level_of(group, host_of, r);
        if (r != group->rank)
            status = endpoint_connect(group, member->level, r, &member->peer);
    }
    routes_find(group, host_of);
    group->map_level = find_map_level(group);
    if (!status)
        status = routes_connect(group, host_of);
    return status ? status : start_map(group, host_of);
}

void endpoints_stop_messages(struct tutti_group *group)
{
    routes_stop(group);
    p2p_group_free(group->p2p);
    group->p2p = NULL;
}

/* The group's own space of messages; `paths` has room for all members. */
static tutti_status start_own(struct tutti_group *group, struct p2p_path **paths)
{
    tutti_status status = TUTTI_OK;

    for (int r = 0; r < group->size && !status; r++) {
        struct member *member = &group->members[r];

        if (r == group->rank)
            continue;
        status = p2p_engine_add_path(group->p2p_engine, group->endpoints[member->level].index,
                                     member->peer, r, group->size, &member->path);
        paths[r] = member->path;
    }
    return status ? status
                  : p2p_group_new(group->p2p_engine, 1, group->rank, group->size, paths,
                                  &group_events, group, &group->p2p);
}

tutti_status endpoints_start_messages(struct tutti_group *group, const int *host_of)
{
    struct p2p_path **paths = calloc((size_t)group->size, sizeof *paths);

    if (!paths)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d paths", group->size);
    tutti_status status = p2p_engine_new(&group->p2p_engine);
    for (int level = 0; level < TRANSPORTS && !status; level++)
        if (group->endpoints[level].ops)
            status = add_endpoint(group, &group->endpoints[level]);
    if (!status)
        status = start_own(group, paths);
    free(paths);
    return status ? status : routes_start(group, host_of);
}

tutti_status endpoints_map_test(struct tutti_group *group)
{
    struct endpoint *mapping = &group->endpoints[group->map_level];
    struct mates *mates = group->mates;

    if (!group->map || group->has_mapped)
        return TUTTI_OK;
    void **bases = calloc((size_t)mates->count, sizeof *bases);
    int *ranks = calloc((size_t)mates->count, sizeof *ranks);
    tutti_status status = bases && ranks
                              ? mapping->ops->map_test(mapping->endpoint, group->map, bases)
                              : error_set(TUTTI_ERR_NO_MEMORY, "no memory for mapped memory");
    if (!status) {
        for (int i = 0; i < mates->count; i++)
            ranks[i] = mates->peers[i].rank;
        status = mapped_init(&group->mapped, mates->count, mates->self, bases, ranks);
        group->has_mapped = !status;
    }
    free(bases);
    free(ranks);
    return status;
}
