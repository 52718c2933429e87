/* SPDX-License-Identifier: Apache-2.0 */
/* The transports that a group has open. */
#pragma once

#include "group/group.h"

tutti_status endpoint_open(struct tutti_group *group, int level, const char *name);
void endpoints_close(struct tutti_group *group);
/* Ways to all members, from the roster, and the start of mapping; `host_of`: the agreed layout. */
tutti_status endpoints_connect(struct tutti_group *group, const int *host_of);
/* The memory of the local peers, when the local transport maps it: NOT_READY until it is there. */
tutti_status endpoints_map_test(struct tutti_group *group);
/* Whether collectives use memory that local peers share by that backend. Nothing in it has a checksum. */
static inline bool endpoint_maps(const struct tutti_group *group, int level)
{
    const struct endpoint *endpoint = &group->ways.endpoints[level];

    return !group->has_checksums && endpoint->ops && level == group->ways.map_level &&
           endpoint->ops->capabilities & TUTTI_CAP_MAP;
}
/* Messages may flow from here on. `host_of`: NULL in a group of one. */
tutti_status endpoints_start_messages(struct tutti_group *group, const int *host_of);

/* The services for plugins; `self` is an endpoint. */
extern const tutti_host endpoint_services;
/* What keeps strays out of a plugin that does not use tutti_host.mac: the group's, for this plugin alone. */
tutti_status host_token(const struct host_user *user, uint8_t ret_token[16]);
/* Asks for what the others have to know, and keeps it for the roster. `address` as of a transport. */
tutti_status endpoint_take_address(struct tutti_group *group, int level, const char *name,
                                   tutti_status (*address)(void *of, void *ret_address,
                                                           uint64_t capacity, uint64_t *ret_bytes),
                                   void *of);
/* UNSUPPORTED when the core cannot call from the threads that a provider wants. */
tutti_status endpoint_check_threads(const char *name, uint32_t threads);
