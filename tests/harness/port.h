/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP port for a server that starts later, here or in a child. */
#pragma once

#include <stdint.h>

/* A port of 127.0.0.1 on which nobody listens. While this process lives the kernel gives it to no
 * socket that asks for any port or connects; a server that names it may take it with SO_REUSEADDR.
 * 0: errno says why there is none. */
uint16_t port_reserve(void);
