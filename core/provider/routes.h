/* SPDX-License-Identifier: Apache-2.0 */
/* Ways of their own for the calls that rules of TUTTI_BACKEND take. */
#pragma once

#include "group/group.h"

/* Finds the routes of the choice's rules, once the endpoints are open. */
void routes_find(struct tutti_group *group, const int *host_of);
/* Ways to the members by every backend that a rule's calls take; after the group's own. */
tutti_status routes_connect(struct tutti_group *group, const int *host_of);
/* Messages may flow. */
tutti_status routes_start(struct tutti_group *group, const int *host_of);
void routes_stop(struct tutti_group *group);
void routes_free(struct tutti_group *group);
/* Gathers the facts for plans, once layout and engine are known. */
void routes_gather_facts(struct tutti_group *group);
/* Every call of the rules' routes ends with `status`. */
void routes_fail(struct tutti_group *group, tutti_status status);
/* The ways to a member that left in order are ended. */
void routes_end(struct tutti_group *group, int rank);
/* The number of messages that came from the member over ways that are not the group's own
 * (p2p_path_arrived()). */
uint64_t routes_arrived(const struct tutti_group *group, int rank);
/* The route of a rule's calls; NULL, no rule: the group's own. */
int route_of(const struct tutti_group *group, const struct backend_rule *rule);
static inline struct p2p_group *route_space(const struct tutti_group *group, int route)
{
    return route ? group->ways.routes.each[route].p2p : group->ways.p2p;
}
/* The backend that carries messages to a member by that route. */
const char *route_carrier(const struct tutti_group *group, int route, int rank);
