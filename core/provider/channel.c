/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/channel.h"

#include <stdlib.h>

#include "base/error.h"
#include "provider/native.h"
#include "provider/routes.h"

/* Tags of programs end at 2^62 - 1. */
#define NAME_TAG (UINT64_C(1) << 62)

/* A rule for messages is kept to, and wrappers look at host memory. */
bool channels_carry(const struct tutti_group *group, int peer, uint64_t bytes)
{
    const struct native *n = group->ways.device_native;

    return n && peer != group->rank && TUTTI_HAS(n->ops, launch_end) &&
           TUTTI_HAS(n->ops, carries) && !group->ways.wrappers &&
           !group->ways.routes.message_rule && n->ops->carries(n->team, bytes);
}

struct channel *channel_find(struct tutti_group *group, int peer, bool sends)
{
    struct channel *channel = group->calls.moving.channels;

    while (channel && (channel->peer != peer || channel->sends != sends))
        channel = channel->next;
    if (channel || !(channel = calloc(1, sizeof *channel)))
        return channel;
    *channel = (struct channel){.next = group->calls.moving.channels,
                                .native = group->ways.device_native,
                                .peer = peer,
                                .sends = sends};
    channel->last = &channel->first;
    channel->last_flying = &channel->flying;
    group->calls.moving.channels = channel;
    return channel;
}

/* ---- opening ---- */

static tutti_status send_name(struct tutti_group *group, struct channel *c)
{
    uint64_t bytes = 0;
    tutti_status status =
        c->native->ops->channel_name(c->native->team, c->name, sizeof c->name, &bytes);

    if (status)
        return native_failed(c->native, status, "name a channel");
    return p2p_send(route_messages(group), &c->naming, c->peer, NAME_TAG, c->name, bytes);
}

/* The name travels, or has come. */
static tutti_status take_name(struct tutti_group *group, struct channel *c)
{
    tutti_status status = TUTTI_OK;

    if (c->is_named)
        return p2p_op_error(&c->naming);
    c->is_named = true;
    c->naming = (struct p2p_op){.up_to = true};
    status = c->sends ? send_name(group, c)
                      : p2p_recv(route_messages(group), &c->naming, c->peer, NAME_TAG, c->name,
                                 sizeof c->name);
    return status ? status : p2p_op_error(&c->naming);
}

static tutti_status begin_to_open(struct tutti_group *group, struct channel *c)
{
    const tutti_message_channel_options options = {.struct_size = sizeof options,
                                                   .source = c->sends ? group->rank : c->peer,
                                                   .destination = c->sends ? c->peer : group->rank,
                                                   .name = c->name,
                                                   .name_bytes = c->naming.bytes};
    tutti_status status = device_stream_take(c->native->device, &c->stream);

    if (status)
        return error_prefix("a stream for messages");
    status = c->native->ops->channel_open(c->native->team, &options, &c->channel);
    return native_failed(c->native, status, "open a channel");
}

tutti_status channel_opens(struct tutti_group *group, struct channel *c)
{
    tutti_status status = TUTTI_OK;

    if (c->is_open)
        return TUTTI_OK;
    if (!c->channel) {
        status = take_name(group, c);
        if (!status)
            status = begin_to_open(group, c);
    }
    if (!status)
        status = channel_asks(c);
    c->is_open = !status;
    return status;
}

/* ---- messages ---- */

tutti_status channels_begin_launch(struct tutti_group *group)
{
    struct native *n = group->ways.device_native;

    return native_failed(n, n->ops->launch_begin(n->team), "launch messages");
}

tutti_status channels_end_launch(struct tutti_group *group)
{
    struct native *n = group->ways.device_native;

    return native_failed(n, n->ops->launch_end(n->team), "launch messages");
}

tutti_status channel_gives(struct channel *c, void *memory, uint64_t bytes)
{
    return native_failed(c->native,
                         c->native->ops->channel_move(c->channel, memory, bytes, c->stream),
                         "move a message");
}

tutti_status channel_asks(struct channel *c)
{
    return native_failed(c->native, c->native->ops->channel_test(c->channel), "move messages");
}

/* ---- the end ---- */

static void abort_one(struct channel *c)
{
    if (c->channel && !c->is_aborted)
        (void)c->native->ops->channel_abort(c->channel);
    c->is_aborted = true;
}

void channels_abort(struct tutti_group *group)
{
    for (struct channel *c = group->calls.moving.channels; c; c = c->next)
        abort_one(c);
}

void channels_close(struct tutti_group *group)
{
    struct channel *c;

    while ((c = group->calls.moving.channels)) {
        const bool has_failed = control_verdict_status(group->control);

        group->calls.moving.channels = c->next;
        if (has_failed)
            abort_one(c);
        if (c->channel)
            c->native->ops->channel_close(c->channel);
        if (c->stream && !has_failed) /* else something may still be on it */
            device_stream_give(c->native->device, c->stream);
        free(c);
    }
}
