/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls reach all members: the group's own route, and those of rules where these differ from it: by other
 * backends inside hosts, between them, or both. Each route has a space of messages in the group's engine;
 * sequence, signature and queue are the group's, so order, deadlines, comparison and the
 * verdict know nothing of it. Rules with the same way share a route, and a way to a member by one
 * backend is made once. Every member finds the same routes under the same numbers, since they follow
 * from the choice and the layout alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cpu.h"
#include "base/error.h"
#include "group/group.h"
#include "provider/endpoints.h"
#include "provider/native.h"
#include "provider/routes.h"

static int count_hosts(const int *host_of, int size)
{
    int hosts = 0;

    for (int r = 0; r < size; r++)
        hosts = host_of[r] >= hosts ? host_of[r] + 1 : hosts;
    return hosts;
}

static bool same_way(struct backend_way a, struct backend_way b)
{
    return a.inside == b.inside && a.between == b.between;
}

static void find(struct tutti_group *group, const int *host_of)
{
    const struct backend_choice *choice = &group->choice;
    const int hosts = count_hosts(host_of, group->size);
    struct routes *routes = &group->ways.routes;

    routes->each[0].way = backend_way_in(NULL, hosts, group->size);
    routes->count = 1;
    for (uint32_t i = 0; i < choice->rule_count; i++) {
        const struct backend_way way = backend_way_in(&choice->rules[i], hosts, group->size);
        const bool on_device = choice->rules[i].on_device && *choice->device_engine;
        int route = 0;

        while (route < routes->count && (routes->each[route].on_device != on_device ||
                                         !same_way(routes->each[route].way, way)))
            route++;
        routes->each[route].way = way;
        routes->each[route].on_device = on_device;
        routes->of_rule[i] = route;
        routes->count += route == routes->count;
    }
    routes->message_rule = backend_rule_of_messages(choice);
    routes->message_words = routes->message_rule ? routes->message_rule->words : NULL;
    routes->message_route = route_of(group, routes->message_rule);
}

/* The backend by which the route leads to a member. A group that has none inside hosts takes the other. */
static int level_by(const struct tutti_group *group, int route, const int *host_of, int rank)
{
    const struct backend_way way = group->ways.routes.each[route].way;
    const int level = host_of[rank] == host_of[group->rank] ? way.inside : way.between;

    return group->ways.endpoints[level].ops ? level : REMOTE;
}

static tutti_status allocate(struct link *link, int size)
{
    if (!link->peers)
        link->peers = calloc((size_t)size, sizeof *link->peers);
    if (!link->paths)
        link->paths = calloc((size_t)size, sizeof *link->paths);
    return link->peers && link->paths
               ? TUTTI_OK
               : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group of %d members", size);
}

static tutti_status connect_to(const struct tutti_group *group, int level, int rank,
                               tutti_peer **ret_peer)
{
    const struct endpoint *endpoint = &group->ways.endpoints[level];
    const struct control_member *member = &group->control->members[rank];

    return endpoint->ops->connect(endpoint->endpoint, member->provider_address[level],
                                  member->provider_address_size[level], (uint64_t)rank, ret_peer);
}

tutti_status routes_connect(struct tutti_group *group, const int *host_of)
{
    tutti_status status = TUTTI_OK;

    routes_free(group); /* of a round before */
    find(group, host_of);
    for (int route = 0; route < group->ways.routes.count; route++)
        for (int r = 0; r < group->size && !status; r++) {
            const int level = level_by(group, route, host_of, r);
            struct link *link = &group->ways.routes.links[level];

            if (r == group->rank)
                continue;
            status = allocate(link, group->size);
            if (!status && !link->peers[r])
                status = connect_to(group, level, r, &link->peers[r]);
        }
    return status;
}

/* From how many bytes on a message's buffer does not stay in a cache: who receives so much most likely sends as much.
 * Members without a CPU do not move anything meanwhile. */
static uint64_t uncached_bytes(const struct tutti_group *group)
{
    const int members = group->local ? group->local->count : group->size;

    return cpu_cache_share_of_running((uint32_t)members) / 2;
}

static tutti_status start(struct tutti_group *group, int route, const int *host_of)
{
    AUTOFREE struct p2p_path **paths = calloc((size_t)group->size, sizeof *paths);
    tutti_status status = TUTTI_OK;

    if (!paths)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d paths", group->size);
    for (int r = 0; r < group->size && !status; r++) {
        if (r == group->rank)
            continue;
        const int level = level_by(group, route, host_of, r);
        struct link *link = &group->ways.routes.links[level];
        if (!link->paths[r])
            status = p2p_engine_add_path(group->ways.p2p_engine, group->ways.endpoints[level].index,
                                         link->peers[r], r, group->size, &link->paths[r]);
        paths[r] = link->paths[r];
    }
    if (!status)
        status = p2p_group_new(group->ways.p2p_engine, (uint32_t)route + 1, group->rank,
                               group->size, paths, group->upcalls->messages, group,
                               &group->ways.routes.each[route].p2p);
    if (!status)
        p2p_group_tell_uncached(group->ways.routes.each[route].p2p, uncached_bytes(group));
    if (!status && group->ways.device_native)
        p2p_group_tell_bare(group->ways.routes.each[route].p2p);
    return status;
}

tutti_status routes_start(struct tutti_group *group, const int *host_of)
{
    tutti_status status = start(group, 0, host_of);

    for (int route = 1; route < group->ways.routes.count && !status; route++)
        status = start(group, route, host_of);
    return status;
}

void routes_stop(struct tutti_group *group)
{
    for (int route = 0; route < ROUTES_MAX; route++) {
        struct route *each = &group->ways.routes.each[route];

        p2p_group_free(each->p2p);
        each->p2p = NULL;
    }
}

void routes_free(struct tutti_group *group)
{
    for (int level = 0; level < TRANSPORTS; level++) {
        struct link *link = &group->ways.routes.links[level];

        free(link->peers);
        free(link->paths);
        *link = (struct link){.peers = NULL};
    }
}

/* The group's engine, where it is that of the one backend which the calls go by. */
static const struct native_facts *engine_of(const struct tutti_group *group, int route)
{
    const struct native_facts *native = native_facts(group);

    if (group->ways.routes.each[route].on_device)
        return group->ways.wrappers || !group->ways.device_native
                   ? NULL /* wrappers look at tensors in host memory */
                   : &group->ways.device_native->facts;
    const struct backend_way way = group->ways.routes.each[route].way;

    return native && way.inside == way.between &&
                   !strcmp(native->name, group->ways.endpoints[way.between].user.name)
               ? native
               : NULL;
}

static void name_composed(struct route *route)
{
    const char *local = route->facts.local_name, *remote = route->facts.remote_name;

    if (local && remote)
        snprintf(route->composed, sizeof route->composed, "%s+%s", local, remote);
}

/* Each message is recorded with its carrier. */
static void name_carriers(struct tutti_group *group)
{
    const int *host_of = group->layout.host_of;

    for (int r = 0; r < group->size; r++) {
        const int level = level_by(group, group->ways.routes.message_route, host_of, r);

        group->ways.members[r].carrier =
            r == group->rank ? "self" : group->ways.endpoints[level].user.name;
    }
}

void routes_gather_facts(struct tutti_group *group)
{
    name_carriers(group);
    name_composed(&group->ways.routes.each[0]);
    if (group->choice.rule_count && group->size > 1)
        group->ways.routes.each[0].facts.native = engine_of(group, 0);
    for (int route = 1; route < group->ways.routes.count; route++) {
        struct route *each = &group->ways.routes.each[route];
        const struct backend_way way = each->way;
        const char *inside = group->ways.endpoints[way.inside].user.name;
        const char *between = group->ways.endpoints[way.between].user.name;
        const bool mapped = endpoint_maps(group, way.inside);

        each->facts = (struct group_facts){.layout = &group->layout,
                                           .mapped = mapped,
                                           .messages = true,
                                           .local_name = mapped ? inside : NULL,
                                           .remote_name = between,
                                           .remote_cost = group->ways.endpoints[way.between].cost,
                                           .native = engine_of(group, route)};
        name_composed(each);
    }
}

void routes_fail(struct tutti_group *group, tutti_status status)
{
    for (int route = 0; route < ROUTES_MAX; route++)
        if (group->ways.routes.each[route].p2p)
            p2p_group_fail(group->ways.routes.each[route].p2p, status);
}

/* NULL: no route takes that backend to the member. */
static struct p2p_path *path_by(const struct tutti_group *group, int level, int rank)
{
    struct p2p_path *const *paths = group->ways.routes.links[level].paths;

    return paths ? paths[rank] : NULL;
}

void routes_end(struct tutti_group *group, int rank)
{
    for (int level = 0; level < TRANSPORTS; level++) {
        struct p2p_path *path = path_by(group, level, rank);

        if (path)
            p2p_path_fail(path, TUTTI_ERR_PEER_LOST, "it left the group");
    }
}

uint64_t routes_arrived(const struct tutti_group *group, int rank)
{
    uint64_t arrived = 0;

    for (int level = 0; level < TRANSPORTS; level++) {
        const struct p2p_path *path = path_by(group, level, rank);

        arrived += path ? p2p_path_arrived(path) : 0;
    }
    return arrived;
}

int route_of(const struct tutti_group *group, const struct backend_rule *rule)
{
    return rule ? group->ways.routes.of_rule[rule - group->choice.rules] : 0;
}
