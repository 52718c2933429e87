/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel of an engine for devices: its way of messages from one member of the group to another. It opens with the
 * first message that both have agreed on. The sender names it, in a message of p2p with a tag that no program can use.
 *
 * Nothing here waits. Under the progress lock.
 */
#pragma once

#include "group/group.h"

struct flying; /* a message that is on the channel's stream; moved.c */

struct channel {
    struct channel *next;
    struct native *native;
    int peer;
    bool sends;
    struct call *first, **last; /* messages that were agreed on, in that order */
    struct flying *flying, **last_flying;

    tutti_message_channel *channel; /* NULL: its name is not known, or it could not be opened */
    bool is_open;
    bool has_launched; /* so the engine has connected both ends */
    bool is_ready;     /* to take messages in the launches of this round */
    void *stream;
    struct p2p_op naming;
    uint8_t name[TUTTI_CHANNEL_NAME_MAX];
    bool is_named; /* `naming` was started */
    bool is_aborted;

    tutti_status trouble; /* what the engine has said; OK: nothing has failed */
    int64_t trouble_ns;   /* since when */
    char words[768];
};

/* Whether the group's engine for devices moves messages of so many bytes with that member. */
bool channels_carry(const struct tutti_group *group, int peer, uint64_t bytes);
/* The channel to or from that member, which is new the first time; NULL: no memory. */
struct channel *channel_find(struct tutti_group *group, int peer, bool sends);
/* OK: it is open. NOT_READY; or what has failed. */
tutti_status channel_opens(struct tutti_group *group, struct channel *channel);
/* A launch of messages: each is given to its channel between the beginning and the end. NOT_READY, of the end:
 * channel_asks() tells when those of the channel are on its stream. */
tutti_status channels_begin_launch(struct tutti_group *group);
tutti_status channel_gives(struct channel *channel, void *memory, uint64_t bytes);
tutti_status channels_end_launch(struct tutti_group *group);
tutti_status channel_asks(struct channel *channel);
/* The group has failed: streams go on. */
void channels_abort(struct tutti_group *group);
/* All of the group; before its team is closed. */
void channels_close(struct tutti_group *group);
