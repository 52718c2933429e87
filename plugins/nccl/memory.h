/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the GPU that is registered with a team's communicator, by ncclCommRegister(). Not by windows, whose
 * registration makes the next communicators of a thread fail where they are non-blocking, as ours are.
 */
#pragma once

#include "channel.h"

struct communicator;

/* As the functions of tutti_collectives_ops. */
tutti_status memory_register(const struct channel_home *home, struct communicator *communicator,
                             void *address, uint64_t bytes, void **ret_address,
                             tutti_team_memory **ret_memory);
void memory_release(const struct channel_home *home, struct communicator *communicator,
                    tutti_team_memory *memory);
