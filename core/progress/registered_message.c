/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages whose sender's tensor is in registered memory: where it lies, for a receiver on the same host, and
 * where that maps it. p2p/p2p_place.c says how they are read.
 */
#include "progress/progress.h"

/* The index of a member whose memory is mapped here; -1: it is not. */
static int local_peer(const struct tutti_group *group, int rank)
{
    return group->ways.has_mapped && group->layout.host_of[rank] == group->layout.host
               ? group->layout.local_of[rank]
               : -1;
}

/* A rule for messages is kept to: they go by the backend that it names. */
bool registered_place(void *user, int destination, const void *buffer, uint64_t bytes,
                      struct p2p_place *ret_place, _Atomic uint64_t **ret_claim)
{
    struct tutti_group *group = user;
    struct mapped *mapped = &group->ways.mapped;
    struct p2p_place place;

    if (local_peer(group, destination) < 0 || group->ways.routes.message_rule)
        return false;
    const struct tutti_memory *memory = memories_claim(group, buffer, bytes, &place.claim);
    if (!memory)
        return false;
    place.memory = memory->number;
    place.offset = (uint64_t)((const unsigned char *)buffer - memory->base);
    *ret_place = place;
    *ret_claim = &mapped->areas[mapped->self]->claims[place.claim];
    return true;
}

void registered_unplace(void *user, _Atomic uint64_t *claim)
{
    struct tutti_group *group = user;
    const struct mapped *mapped = &group->ways.mapped;

    memories_release_claim(group, (uint32_t)(claim - mapped->areas[mapped->self]->claims));
}

tutti_status registered_find(void *user, int source, const struct p2p_place *place, uint64_t bytes,
                             unsigned char **ret_at, _Atomic uint64_t **ret_claim)
{
    struct tutti_group *group = user;
    const struct mapped *mapped = &group->ways.mapped;
    const int index = local_peer(group, source);

    if (index < 0 || place->claim >= MAPPED_CLAIMS)
        return TUTTI_ERR_INTERNAL;
    *ret_claim = &mapped->areas[index]->claims[place->claim];
    return mapped_place(mapped, index, place->memory, place->offset, bytes, ret_at);
}
