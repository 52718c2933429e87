/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from one member to another, on a communicator of the two: number 0 of it sends, number 1 receives. So
 * messages in the other direction, and the group's collectives, have no order with them.
 */
#pragma once

#include <stdbool.h>

#include <tutti/plugin_engine.h>

#include "library.h"

/* What a channel takes from its team. */
struct channel_home {
    struct caller caller;
    const struct nccl_library *nccl;
    const tutti_device_ops *device;
    tutti_accelerator *accelerator;
};

/* Whether this process may have some. Before the library is open, as far as the environment tells. */
bool channels_are_possible(void);
/* Since 2.27 calls that are in progress together in one thread do not share what NCCL keeps of them. */
bool channels_are_apart(int code);
/* As the functions of tutti_collectives_ops. */
bool channel_carries(uint64_t bytes);
tutti_status channel_name(const struct caller *caller, const struct nccl_library *nccl,
                          void *ret_name, uint64_t capacity, uint64_t *ret_bytes);
tutti_status channel_open(const struct channel_home *home,
                          const tutti_message_channel_options *options, bool sends,
                          tutti_message_channel **ret_channel);
/* A launch is a group of NCCL's. For each communicator in it that is one kernel, so messages of a channel that are in
 * one launch move together; NCCL keeps their order. */
tutti_status channels_begin(const struct channel_home *home);
tutti_status channels_end(const struct channel_home *home);
tutti_status channel_move(tutti_message_channel *channel, void *memory, uint64_t bytes,
                          void *stream);
tutti_status channel_test(tutti_message_channel *channel);
tutti_status channel_abort(tutti_message_channel *channel);
void channel_close(tutti_message_channel *channel);
