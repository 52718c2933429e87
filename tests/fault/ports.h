/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP ports of this network on which processes listen, and the connections to them. */
#pragma once

#include <stdint.h>

enum { PORTS_MAX = 64 };

/* Adds the ports on which the process listens behind the `count` that are there; returns how many
 * there are then. */
int ports_add(int pid, uint16_t ports[PORTS_MAX], int count);
/* Connections that others hold to the port, also such as nobody has accepted yet. */
int ports_connections(uint16_t port);
