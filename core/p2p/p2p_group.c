/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: making, failing, freeing.
 *
 * A failing group gives every buffer back at once. What only queues is dropped; what the transport
 * has in memory of the core goes on for nobody; what it has in a caller's memory is cancelled, and
 * because the peer's stream cannot be used after that, the path fails for all of its groups. So it does
 * where a piece longer than P2P_BUFFER_MAX is still to come or to go: the core's memory for as much from
 * each of many members would be too much.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_parts.h"

struct p2p_group_name *p2p_group_find(struct p2p_engine *engine, uint32_t group_id)
{
    struct p2p_group_name *name = engine->names[group_id % P2P_NAME_SLOTS];

    while (name && name->id != group_id)
        name = name->next;
    return name;
}

tutti_status p2p_group_new(struct p2p_engine *engine, uint32_t group_id, int rank, int size,
                           struct p2p_path *const *paths, const struct p2p_events *events,
                           void *user, struct p2p_group **ret_group)
{
    if (size < 1 || rank < 0 || rank >= size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "rank %d of %d members", rank, size);
    for (int i = 0; i < size; i++)
        if (!paths[i] != (i == rank))
            return error_set(TUTTI_ERR_INVALID_ARGUMENT, "no connection to rank %d of the group",
                             i);
    if (p2p_group_find(engine, group_id))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the group id %u was used before", group_id);

    struct p2p_group *group = calloc(1, sizeof *group + (size_t)size * sizeof group->paths[0]);
    struct p2p_group_name *name = group ? chain_allocate(&engine->memory, sizeof *name) : NULL;
    if (!name) {
        free(group);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group of %d members", size);
    }
    *name = (struct p2p_group_name){
        .next = engine->names[group_id % P2P_NAME_SLOTS], .id = group_id, .group = group};
    engine->names[group_id % P2P_NAME_SLOTS] = name;
    group->engine = engine;
    group->name = name;
    group->events = events;
    group->user = user;
    group->id = group_id;
    group->rank = rank;
    group->size = size;
    group->uncached_bytes = UINT64_MAX;
    memcpy(group->paths, paths, (size_t)size * sizeof group->paths[0]);
    p2p_link_init(&group->ops);
    p2p_link_append(&engine->groups, &group->link);
    engine->adopting |= !p2p_link_alone(&engine->orphans);
    *ret_group = group;
    return TUTTI_OK;
}

void p2p_group_tell_uncached(struct p2p_group *group, uint64_t bytes)
{
    group->uncached_bytes = bytes;
}

void p2p_group_tell_bare(struct p2p_group *group)
{
    group->has_bare = true;
}

/* Takes the group's operation off a packet. True when the transport has the caller's memory. */
static bool detach_packet(struct p2p_packet *packet, const struct p2p_group *group)
{
    struct p2p_op *op = packet->op;

    if (!op || op->group != group)
        return false;
    op->packet = NULL;
    packet->op = NULL;
    if (packet->stage == PACKET_QUEUED)
        p2p_packet_drop(packet);
    else if (packet->stage == PACKET_GIVEN)
        return packet->direct && packet->body.held;
    else
        return packet->header.bytes > P2P_BUFFER_MAX || !p2p_packet_copy(packet);
    return false;
}

static bool detach_packets(struct p2p_link *list, const struct p2p_group *group)
{
    bool held = false;

    P2P_EACH(packet, list, struct p2p_packet, link)
        held |= detach_packet(packet, group);
    return held;
}

static bool detach_incoming(struct p2p_path *path, const struct p2p_group *group)
{
    bool held = false;

    P2P_EACH(incoming, &path->incoming, struct p2p_incoming, link) {
        if (!incoming->op || incoming->op->group != group)
            continue;
        incoming->op = NULL;
        if (incoming->buffer)
            continue;
        if (path->unposted == incoming)
            held |= incoming->bytes > P2P_BUFFER_MAX || !p2p_incoming_redirect(incoming);
        else
            held |= incoming->io.held;
    }
    return held;
}

void p2p_path_cut_off(struct p2p_path *path)
{
    p2p_path_fail(path, TUTTI_ERR_ABORTED,
                  "a message to or from rank %d was cut off half way when another group failed",
                  path->label_rank);
}

static void leave_path(struct p2p_group *group, struct p2p_path *path)
{
    bool held = detach_packets(&path->queue, group);

    held |= detach_packets(&path->issued, group);
    held |= detach_incoming(path, group);
    if (!held)
        return;
    p2p_path_cut_off(path);
    p2p_path_withdraw(path);
}

void p2p_group_end(struct p2p_group *group, tutti_status status)
{
    struct p2p_envelope *envelope;
    struct p2p_op *op;
    size_t cursor = 0;

    if (group->failed)
        return;
    group->failed = status;
    for (int rank = 0; rank < group->size; rank++)
        if (group->paths[rank])
            leave_path(group, group->paths[rank]);
    while ((op = P2P_FIRST(&group->ops, struct p2p_op, member)))
        p2p_op_complete(op, status);
    while ((envelope = p2p_match_any(group, &cursor)))
        p2p_envelope_drop(envelope);
}

void p2p_group_fail(struct p2p_group *group, tutti_status status)
{
    p2p_group_end(group, status);
    p2p_op_finish(group->engine, group);
}

void p2p_group_free(struct p2p_group *group)
{
    if (!group)
        return;
    p2p_group_fail(group, TUTTI_ERR_ABORTED);
    group->name->group = NULL;
    p2p_link_remove(&group->link);
    free(group->table.slots);
    free(group);
}
