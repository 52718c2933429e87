/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the members of a simulated world. */
#include <string.h>

#include "sim.h"

struct sim_message {
    struct sim_message *next; /* in its channel's queue; a matched send: among the transfers */
    struct sim_message *receive;
    void *data;
    uint64_t bytes, sequence;
    uint32_t delay;
    bool done;
    uint16_t queue; /* 0 sends, 1 receives, of `channel` */
    struct sim_channel *channel;
};

static void append(struct sim_channel *channel, struct sim_message *message)
{
    if (channel->last[message->queue])
        channel->last[message->queue]->next = message;
    else
        channel->first[message->queue] = message;
    channel->last[message->queue] = message;
}

static struct sim_message *take_first(struct sim_channel *channel, int queue)
{
    struct sim_message *message = channel->first[queue];

    if (!message)
        return NULL;
    channel->first[queue] = message->next;
    if (!message->next)
        channel->last[queue] = NULL;
    return message;
}

/* From here on both buffers are the wire's for a while: what was not there when the send began, or
 * is written to either too early, ends up in the result. */
static void match(struct sim_world *world, struct sim_message *send, struct sim_message *receive)
{
    if (send->bytes != receive->bytes || send->sequence != receive->sequence)
        sim_fail("a message of %lu bytes in #%lu met a receive of %lu in #%lu",
                 (unsigned long)send->bytes, (unsigned long)send->sequence,
                 (unsigned long)receive->bytes, (unsigned long)receive->sequence);
    send->receive = receive;
    send->delay = (uint32_t)sim_below(world, 2 * (uint64_t)world->size);
    send->next = world->transfers;
    world->transfers = send;
    if (receive->bytes)
        memset(receive->data, 0x5a, receive->bytes);
}

void sim_progress(struct sim_world *world)
{
    struct sim_message **link = &world->transfers;

    while (*link) {
        struct sim_message *send = *link;

        world->activity++;
        if (send->delay) {
            send->delay--;
            link = &send->next;
            continue;
        }
        *link = send->next;
        if (send->bytes)
            memcpy(send->receive->data, send->data, send->bytes);
        send->done = send->receive->done = true;
    }
}

static tutti_status start(struct sim_member *member, struct sim_channel *channel,
                          struct sim_message *message, int queue, void *data, uint64_t bytes)
{
    struct sim_world *world = member->world;
    struct sim_message *other;

    world->activity++;
    if (sim_below(world, 8) == 0)
        return TUTTI_ERR_NOT_READY;
    *message = (struct sim_message){.data = data,
                                    .bytes = bytes,
                                    .sequence = member->sequence,
                                    .done = !channel,
                                    .delay = (uint32_t)sim_below(world, 3),
                                    .queue = (uint16_t)queue,
                                    .channel = channel};
    if (!channel)
        return TUTTI_OK;
    other = take_first(channel, !queue);
    if (other)
        match(world, queue ? other : message, queue ? message : other);
    else
        append(channel, message);
    return TUTTI_OK;
}

static tutti_status sim_send(void *user, int peer, void *ticket, const void *data, uint64_t bytes)
{
    struct sim_member *member = user;
    struct sim_world *world = member->world;

    return start(member,
                 peer == SIM_NOBODY ? NULL : &world->channels[member->rank * world->size + peer],
                 ticket, 0, (void *)(uintptr_t)data, bytes);
}

static tutti_status sim_recv(void *user, int peer, void *ticket, void *data, uint64_t bytes)
{
    struct sim_member *member = user;
    struct sim_world *world = member->world;

    return start(member, &world->channels[peer * world->size + member->rank], ticket, 1, data,
                 bytes);
}

static tutti_status sim_test(void *user, void *ticket)
{
    struct sim_member *member = user;
    struct sim_message *message = ticket;

    if (!message->done)
        return TUTTI_ERR_NOT_READY;
    if (!message->channel && message->delay) {
        member->world->activity++;
        message->delay--;
        return TUTTI_ERR_NOT_READY;
    }
    return TUTTI_OK;
}

/* Members fail in worlds without messages only; a pause has nothing to take back. */
static void sim_cancel(void *user, void *ticket)
{
    const struct sim_message *message = ticket;

    (void)user;
    if (message->channel)
        sim_fail("a message was cancelled");
}

const struct wire sim_wire = {sizeof(struct sim_message), sim_send, sim_recv, sim_test, sim_cancel};
