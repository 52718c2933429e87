/* SPDX-License-Identifier: Apache-2.0 */
/* What of this host's network UCX may use, as far as the kernel tells: UCX itself is not asked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PORTS_OF_NET "/sys/class/net"
#define PORTS_OF_FABRIC "/sys/class/infiniband"

/* Whether UCX's tcp has a device of this name; a UCX may leave bridges out. `folder` is PORTS_OF_NET. */
bool ports_have_interface(const char *folder, const char *interface);

/* Adds the active ports of InfiniBand and RoCE adapters to a list of UCX's devices: ",mlx5_0:1,mlx5_1:1", as many as
 * there is room for. `folder` is PORTS_OF_FABRIC. */
void ports_add_fabric(const char *folder, char *list, size_t capacity);
