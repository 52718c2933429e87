/* SPDX-License-Identifier: Apache-2.0 */
/* The ways of calls to all members: the group's own, and those of rules of TUTTI_BACKEND. */
#pragma once

#include "group/group.h"

/* Finds the routes, once the endpoints are open, and connects to the members by every backend that one takes. */
tutti_status routes_connect(struct tutti_group *group, const int *host_of);
/* Messages may flow. `host_of`: NULL in a group of one. */
tutti_status routes_start(struct tutti_group *group, const int *host_of);
/* Frees what messages go by, but for the endpoints. */
void routes_stop(struct tutti_group *group);
void routes_free(struct tutti_group *group);
/* Gathers the facts for plans of rules, and names the carriers of messages, once layout, engine and the group's
 * own facts are known. */
void routes_gather_facts(struct tutti_group *group);
/* Every message ends with `status`. */
void routes_fail(struct tutti_group *group, tutti_status status);
/* The ways to a member that left in order are ended. */
void routes_end(struct tutti_group *group, int rank);
/* The number of messages that have come from the member (p2p_path_arrived()). */
uint64_t routes_arrived(const struct tutti_group *group, int rank);
/* The route of a rule's calls; NULL, no rule: the group's own. */
int route_of(const struct tutti_group *group, const struct backend_rule *rule);
static inline struct p2p_group *route_space(const struct tutti_group *group, int route)
{
    return group->ways.routes.each[route].p2p;
}
/* That of messages of the program. */
static inline struct p2p_group *route_messages(const struct tutti_group *group)
{
    return route_space(group, group->ways.routes.message_route);
}
