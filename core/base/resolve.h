/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names to addresses, under a deadline. getaddrinfo(3) takes none: a name goes to a thread of
 * its own, which is left behind when the deadline ends first. Numeric addresses need no thread.
 */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Stream addresses of host:port, to be freed with freeaddrinfo(). `passive`: to bind to. Returns 0,
 * or a code of getaddrinfo, for gai_strerror(); EAI_AGAIN also when the deadline has passed.
 */
int resolve(const char *host, uint16_t port, bool passive, int64_t deadline_ns,
            struct addrinfo **ret_addresses);
