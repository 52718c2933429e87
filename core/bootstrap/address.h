/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of this host's addresses the other members reach it by: the local end of the route to the
 * place where they meet, as the kernel chose it. Never the host's name, never the wildcard.
 */
#pragma once

#include <tutti/store.h>

enum { ADDRESS_MAX = 46 }; /* bytes of a numeric address and its NUL */

/*
 * A tcp store: the local end of its connection. A hash store: loopback. A file gives no route to
 * ask for, and may be on a network file system: the local end of the default route, or loopback
 * where there is none.
 */
void address_of_route(tutti_store *store, char ret_address[ADDRESS_MAX]);

/* The local end of the default route, or loopback where there is none. */
void address_of_host(char ret_address[ADDRESS_MAX]);
